"""A first RDMA program (examples/programs): the commands of the guide, as a user types them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from emu.host.process_identity import module_command

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "share" / "guide" / "lab.md"
LAB = ROOT / "examples" / "lab" / "roce.toml"
RECEIVED = re.compile(
    r"^mlx5_0 from ::ffff:10\.0\.0\.[12]: "
    r"20000 bytes by SEND, 300000 by RDMA WRITE: (all as sent|DIFFERENT)$",
    re.M,
)
UNTIL_ENDED = 'until grep "ended with status" "$1"; do sleep 0.1; done >/dev/null; cat "$1"'

pytestmark = [pytest.mark.guest, pytest.mark.timeout(1200)]


def blocks():
    """The commands of the page's section: for Python, for C; lines, in their order."""
    section = PAGE.read_text().partition("## A first RDMA program\n")[2].partition("\n## ")[0]
    return [block.splitlines() for block in re.findall(r"```\n(.*?)```", section, re.S)]


@pytest.fixture
def shell(lab, tmp_path, tmp_path_factory, suite):
    """Runs a line in a folder without our sources; guests are of the suite, and go down."""
    environ = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("r"))}
    program = tmp_path_factory.mktemp("bin") / "mlx5emu"
    command = subprocess.list2cmdline(module_command("emu"))
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    environ["PATH"] = f"{program.parent}:{environ['PATH']}"
    of_suite = tmp_path / "roce.toml"
    of_suite.write_text(f'{LAB.read_text()}suite = "{suite}"\n')

    def run(line, status=0):
        line = line.replace("up @roce", f"up {of_suite}").replace("up cc", f"up cc --suite {suite}")
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environ, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    yield run
    run("mlx5emu down --all")


def ended(shell, detached):
    """What a command in the background has written by its end; what its exec has printed."""
    log = detached.splitlines()[1].split()[-1]
    return shell(f"mlx5emu exec h1 -- sh -c '{UNTIL_ENDED}' sh {log}")


def test_the_commands_of_the_guide(shell):
    """In Python, then in C; then each with a peer that sends something else than it should."""
    python, c = blocks()
    *before, up, down = (*python[:3], *c[:-3], "", c[-1])
    assert (up, down) == ("", "mlx5emu lab down")
    for line in before:
        said = shell(line)
        if re.match(r"mlx5emu (lab )?up ", line):
            printed = re.search(r" is up: .*(mlx5emu exec \S+ -- COMMAND)\n", said)[1]
            shell(printed.replace("COMMAND", "true"))
    for first, second in (python[-2:], c[-3:-1]):
        background = shell(first)
        (h2,) = RECEIVED.findall(shell(second))
        h1 = ended(shell, background)
        assert (h2, RECEIVED.findall(h1)) == ("all as sent", ["all as sent"])
        assert h1.endswith("ended with status 0\n")

    shell("sed 's/host \\* 85/host * 86/' exchange.py > other.py && mlx5emu lab cp other.py :")
    for first in (python[-2], c[-3]):
        background = shell(first)
        said = shell("mlx5emu exec h2 -- python3 other.py 10.0.0.1", status=1)
        h1 = ended(shell, background)
        assert RECEIVED.findall(said) == RECEIVED.findall(h1) == ["DIFFERENT"]
        assert h1.endswith("ended with status 1\n")
    shell(down)


def test_a_program_without_an_address_for_rdma(guest):
    """The reason is a line, not a traceback."""
    path = "/tmp/exchange.py"
    source = (ROOT / "examples" / "programs" / "exchange.py").read_text()
    guest.run(f"cat > {path}", stdin=source.encode()).check()
    both = f"python3 {path} & python3 {path} 127.0.0.1; one=$?; wait $!; echo $one$?"
    done = guest.run(f"ip link set lo up; {both}", timeout=240).check()
    assert done.stdout == "11\n"
    assert done.stderr.count("no RDMA device has the address 127.0.0.1") >= 1
