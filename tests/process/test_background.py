"""`mlx5emu exec --detach`: a command that outlives who has started it. No machine is needed."""

import os
import select
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.guest.named_guests import FakeGuest

from emu.cli.main import main
from emu.guests.errors import GuestError
from emu.guests.named import daemon, running
from emu.guests.named.attach import attached, output_of
from emu.guests.named.background import start_in_background

UNTIL_ENDED = 'until grep -q "ended with status" "$1"; do sleep 0.05; done; cat "$1"'


@pytest.fixture(autouse=True)
def guest(tmp_path_factory, monkeypatch):
    """A guest by the name ``one``."""
    path = tmp_path_factory.mktemp("r")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    with (
        FakeGuest() as one,
        running.NameClaim("one") as claim,
        daemon.open_exec_servers(claim, {"suite": "x"}, {"one": one}),
    ):
        yield one


@pytest.fixture
def start():
    """Starts a command as a user does, and returns the commands that are printed."""
    logs = []

    def detach(*words):
        result = CliRunner().invoke(main, ["exec", *map(str, words)])
        assert result.exit_code == 0, result.output
        about, output, end = result.output.splitlines()
        logs.append(Path(output.split()[-1]))
        return about, output.partition(": ")[2], end.partition(": ")[2].strip(), logs[-1]

    yield detach
    for log in logs:
        log.unlink()


def test_output_and_status_go_to_a_log(start, tmp_path):
    os.mkfifo(tmp_path / "go")
    script = "read word < go; echo got $word $A; echo e >&2; exit 7"
    placing = ("--cwd", tmp_path, "--env", "A=b")
    about, output, _, log = start("-d", *placing, "one", "--", "sh", "-c", script)
    assert about.startswith(f"{shlex.join(['sh', '-c', script])} runs in one as process ")
    assert output == f"mlx5emu exec one -- tail -n +1 -f {log}"
    assert log.read_text() == ""
    (tmp_path / "go").write_text("on\n")  # waits for the command, which is alive
    said = output_of("one", ["sh", "-c", UNTIL_ENDED, "sh", str(log)])
    assert said == b"got on b\ne\nended with status 7\n"


def test_the_printed_command_ends_all_that_was_started(start, tmp_path):
    os.mkfifo(tmp_path / "begun")
    script = f"sleep 1000 & echo $! > {tmp_path}/begun; wait"
    _, _, end, _ = start("-d", "one", "--", "sh", "-c", script)
    with open(tmp_path / "begun") as begun:
        process = os.pidfd_open(int(begun.read()))
    try:
        program, *words = shlex.split(end)
        assert program == "mlx5emu"
        assert CliRunner().invoke(main, words).exit_code == 0
        assert select.select([process], [], [], 30)[0]  # readable: the process has ended
    finally:
        os.close(process)


@pytest.mark.parametrize(
    ("options", "word", "status"),
    [
        ([], "/no/such", 127), ([], "no-such-program", 127), ([], "no such\\n", 127),
        ([], "umask", 127), ([], "/tmp", 126), ([], "/etc/passwd", 126), ([], "../etc", 127),
        (["--cwd", "/no/such"], "true", 125), (["--env", "PATH=/no/such:/"], "true", 127),
    ],
)  # fmt: skip
def test_a_program_that_cannot_start_is_refused(options, word, status, capfd, tmp_path):
    result = CliRunner().invoke(main, ["exec", "-d", *options, "one", "--", word])
    assert result.exit_code == status
    assert "runs in one" not in result.output
    assert (word if status != 125 else "/no/such") in result.output + capfd.readouterr().err


def test_programs_that_start_are_found(start):
    start("-d", "--env", "A=b", "--cwd", "/bin", "one", "--", "./true")
    start("-d", "one", "--", "true")
    start("-d", "one", "--", "/bin/true")


@pytest.mark.parametrize("option", [("-t",), ("--timeout", "3")])
def test_what_the_background_cannot_have(option):
    result = CliRunner().invoke(main, ["exec", "-d", *option, "one", "--", "true"])
    assert result.exit_code == 2
    assert "--detach takes neither --tty nor --timeout" in result.output


def test_a_guest_s_answer_that_is_none(monkeypatch):
    """From a guest whose shell says something else."""
    monkeypatch.setattr("emu.guests.named.background._START", "echo $$ >&2; echo -1 /log")
    with attached("one") as channel, pytest.raises(GuestError, match=r"^\d+$"):
        start_in_background(channel, ["true"], "true")
