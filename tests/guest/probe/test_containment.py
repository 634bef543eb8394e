"""A mistake of our own in one function, in a real server: its driver recovers, the other goes on.

The mistake is put into the server's process from outside: a module that Python loads before the
program makes one function raise at its next command whenever a file is there.
"""

from __future__ import annotations

import pytest
from helpers.guest.kernel_log import KernelLog
from helpers.guest.traffic_tools import converse

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(600),
    pytest.mark.pure("it replaces a method in the server's process"),
]

VICTIM_LID = 1
SABOTAGE = """
import os
from emu.device.cmdif.interface import CommandInterface
run = CommandInterface.run
def mistaken(interface):
    if interface._hca.port.lid == {lid} and os.path.exists({path!r}):
        os.remove({path!r})
        raise ZeroDivisionError("a mistake")
    run(interface)
CommandInterface.run = mistaken
"""
PINGPONG = "ibv_rc_pingpong -c -n 300"
HERE = "127.0.0.1"
STREAM = "sleep 1; ibv_rc_pingpong -d mlx5_1 -p 18600 -n 100000000"
ACTIVE = "grep -q PORT_ACTIVE"
SECONDS = 120


@pytest.fixture
def mistake(tmp_path, monkeypatch):
    """A file whose making is the mistake; for servers that are started from now on."""
    path = tmp_path / "mistake"
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE.format(lid=VICTIM_LID, path=str(path)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return path


@pytest.mark.parametrize(
    "model", ["connectx6", pytest.param("connectx6-vf", marks=pytest.mark.slow)]
)
def test_driver_recovers_and_the_other_function_goes_on(boot, mistake, model):
    guest = boot(devices=(f"{model},lid=1", f"{model},lid=2"))
    assert "sitecustomize" not in (guest.logs / "server.log").read_text()
    converse(guest, guest, PINGPONG, HERE)
    log = KernelLog(guest)
    stream = [guest.popen(f"{STREAM} {to}; echo $?") for to in ("", f"$(sleep 1) {HERE}")]
    mistake.touch()
    guest.run("ibv_devinfo -d mlx5_0")
    log.wait_for("Fatal error 5 detected", SECONDS)
    log.wait_for("health recovery succeeded", SECONDS)
    assert not mistake.exists()
    guest.run(f"until ibv_devinfo -d mlx5_0 | {ACTIVE}; do sleep 0.2; done", timeout=SECONDS)
    converse(guest, guest, PINGPONG, HERE)
    for job in stream:
        assert not job.stdout
        job.kill()
    converse(guest, guest, PINGPONG, HERE, client_device="mlx5_1")
    told = (guest.logs / "server.log").read_text()
    assert told.count("ZeroDivisionError: a mistake") == told.count("Traceback") == 1
