"""What a guest's processes leave behind when they are stopped: nothing."""

import os
import select
import signal
import subprocess
import sys

import pytest

from emu.guests.guest.process import how_ended, stop_group, work_seconds

PARENT = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("status", "how"),
    [(3, "ended with status 3"), (-11, "was killed by SIGSEGV"), (-99, "was killed by signal 99")],
)
def test_how_a_process_has_ended(status, how):
    assert how_ended(status) == how


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_group_ends_whole(is_killed, monkeypatch):
    """Also if the first process was killed before, as a kernel is that does not answer."""
    monkeypatch.setattr("emu.guests.guest.process.STOP_TIMEOUT", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, process_group=0
    ) as process:
        child = int(process.stdout.readline())
        child_fd = os.pidfd_open(child)
        if is_killed:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert not select.select([child_fd], [], [], 0)[0], "it goes on without its parent"
        stop_group(process)
        assert select.select([child_fd], [], [], 30)[0], "it has ended"
        os.close(child_fd)


def test_the_work_of_a_process():
    """Of one that sleeps hardly any; of ours more after we have worked."""
    before = work_seconds(os.getpid())
    assert before is not None
    while work_seconds(os.getpid()) < before + 0.02:
        pass
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        assert work_seconds(sleeper.pid) < 5
    finally:
        sleeper.kill()
        sleeper.wait()
    assert work_seconds(sleeper.pid) is None
