"""``mlx5emu`` whose parent has closed its standard output, error output or all descriptors."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["models"], 0),
        (["--version"], 0),
        (["models", "--json"], 0),
        (["guide", "faults"], 0),
        (["nosuch"], 2),
    ],
)
def test_a_command_runs_without_them(words, status, closed, tmp_path):
    log = tmp_path / "log"
    program = f"import sys; sys.excepthook = lambda *e: open({str(log)!r}, 'w').write(repr(e))"
    program += "; from emu.cli.main import main; main(prog_name='mlx5emu')"
    line = shlex.join([sys.executable, "-c", program, *words])
    done = subprocess.run(["sh", "-c", f"exec {line} {closed}"], capture_output=True, text=True)
    assert not log.exists(), log.read_text()
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
