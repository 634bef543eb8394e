"""Commands that the guest's own program cannot start: each gets an answer, and the next one runs.

The program is the guest's init process, so an exception that leaves it is a kernel panic.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys

import pytest

from emu.guests.channel.channel import GuestChannel

INSIDE = """
import os, resource, sys
from emu.guests.inside.runner import Runner

port, soft, hard = map(int, sys.argv[1:4])
os.devnull = sys.argv[4]
os.set_inheritable(port, False)  # as the guest opens it: no command keeps it
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
Runner(port).run()
"""
TIMEOUT = 30.0
LIMITS = (64, 96)


@contextlib.contextmanager
def running(limits=LIMITS, devnull=os.devnull):
    ours, theirs = socket.socketpair()
    words = [str(number) for number in (theirs.fileno(), *limits)]
    with subprocess.Popen(
        [sys.executable, "-c", INSIDE, *words, devnull],
        pass_fds=[theirs.fileno()],
        stderr=subprocess.DEVNULL,
    ) as process:
        theirs.close()
        channel = GuestChannel(ours, hang_timeout=TIMEOUT)
        try:
            assert channel.wait_ready(TIMEOUT)
            yield channel
        finally:
            channel.close()
            process.kill()


def ended(channel, words, environ=None, **options):
    """The status and the error output of a command."""
    job = channel.start("it", words, environ or {}, **options)
    return job.wait(TIMEOUT), job.stderr


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("words", "environ", "status", "said"),
    [
        ([""], {}, 126, b"cannot be empty"),
        (["a\0b"], {}, 126, b"embedded null byte"),
        (["true"], {"": "x"}, 126, b"illegal environment variable name"),
        (["nosuch\udcff"], {}, 127, b"nosuch\xff: No such file or directory"),
        (["true", "x" * (1 << 18)], {}, 126, b"Argument list too long"),
    ],
)
def test_words_that_no_program_can_have(words, environ, status, said):
    with running() as channel:
        got, stderr = ended(channel, words, environ)
        assert (got, said in stderr) == (status, True), stderr
        assert ended(channel, ["true"]) == (0, b"")


@pytest.mark.hostile
def test_a_guest_without_dev_null():
    with running(devnull="/nowhere/null") as channel:
        said = b"/nowhere/null: No such file or directory\n"
        assert ended(channel, ["true"]) == (126, said)
        assert ended(channel, ["true"], has_input=True) == (0, b"")


def stop(channel, jobs):
    for job in jobs:
        job.kill()
    assert channel.wait_for(lambda: all(job.status is not None for job in jobs), TIMEOUT)


def crowd(channel):
    """Start more commands than the descriptors permit; return those that were refused."""
    jobs = [channel.start("it", ["sleep", "1000"], {}) for _ in range(60)]
    assert ended(channel, ["true"])[0] == 126
    refused = [job for job in jobs if job.status is not None]
    stop(channel, [job for job in jobs if job.status is None])
    return refused


@pytest.mark.hostile
def test_more_commands_than_descriptors():
    """Refused commands leave nothing open: as many as before run once some have ended."""
    with running() as channel:
        counts = []
        for _ in range(3):
            refused = crowd(channel)
            assert {bytes(job.stderr) for job in refused} == {b"sleep: Too many open files\n"}
            counts.append(len(refused))
            assert ended(channel, ["true"]) == (0, b"")
    assert counts == [44] * 3  # the 32 descriptors above the lower limit serve 16 commands


def test_the_limit_of_commands_is_that_of_the_boot():
    """Also once the program itself has more descriptors than a command may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with running((16, hard)) as channel:
        jobs = [channel.start("it", ["sleep", "1000"], {}) for _ in range(20)]
        job = channel.start("it", ["sh", "-c", "ulimit -Sn; ulimit -Hn; ls /proc/self/fd"], {})
        assert job.wait(TIMEOUT) == 0
        assert job.stdout.split() == [b"16", b"%d" % hard, b"0", b"1", b"2", b"3"]
        assert [each.status for each in jobs] == [None] * len(jobs)
        stop(channel, jobs)
