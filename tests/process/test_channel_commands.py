"""Commands over the channel, with the guest's own program in a child process instead of a guest."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from emu.guests.channel import frames, job
from emu.guests.channel.channel import GuestChannel
from emu.guests.errors import ChannelClosedError, CommandTimeoutError, GuestError, GuestHungError

INSIDE = """
import os, sys
from emu.guests.inside.runner import Runner

port = int(sys.argv[1])
os.set_inheritable(port, False)  # as the guest opens it: no command keeps it
Runner(port).run()
"""
TIMEOUT = 30.0

pytestmark = pytest.mark.skipif(not shutil.which("sh"), reason="no shell")


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with theirs, ours:
        yield ours, theirs


@pytest.fixture
def child(ends):
    with subprocess.Popen(
        [sys.executable, "-c", INSIDE, str(ends[1].fileno())],
        pass_fds=[ends[1].fileno()],
        stderr=subprocess.DEVNULL,
    ) as process:
        ends[1].close()
        yield process
        process.kill()


@pytest.fixture
def channel(ends, child):
    channel = GuestChannel(ends[0], hang_timeout=TIMEOUT)
    assert channel.wait_ready(TIMEOUT) == os.uname().release
    yield channel
    channel.close()


def start(channel, script, **options):
    return channel.start(script, ["sh", "-c", script], {}, **options)


def test_output_and_status_come_back(channel):
    job = start(channel, "echo out; echo err >&2; exit 4")
    assert job.wait(TIMEOUT) == 4
    assert (job.stdout, job.stderr) == (b"out\n", b"err\n")


def test_settings_and_a_clean_environment(channel):
    script = 'echo "$FOO $HOME"; env | grep -c PYTEST'
    job = channel.start("env", ["sh", "-c", script], {"FOO": "a=b"})
    job.wait(TIMEOUT)
    assert job.stdout == b"a=b /root\n0\n"


def test_more_input_than_the_window_reaches_a_slow_reader(channel):
    job = start(channel, "sleep 0.2; wc -c", has_input=True)
    job.write(bytes(5 * frames.WINDOW), TIMEOUT)
    job.close_input()
    assert job.wait(TIMEOUT) == 0
    assert int(job.stdout) == 5 * frames.WINDOW
    assert job.consumed == job.sent


@pytest.mark.parametrize("script", ["true", "exec <&-; sleep 0.2; exit 0"])
def test_input_that_nobody_reads_does_no_harm(channel, script):
    job = start(channel, script, has_input=True)
    job.write(bytes(5 * frames.WINDOW), TIMEOUT)
    assert job.wait(TIMEOUT) == 0


def test_input_that_a_command_leaves_unread_waits_no_longer_than_asked(channel):
    job = start(channel, "exec sleep 1000", has_input=True)
    job.write(bytes(5 * frames.WINDOW), 0.2)
    with pytest.raises(CommandTimeoutError):
        job.wait(0.0)
    assert job.status == 128 + signal.SIGTERM


def test_a_command_that_does_not_mind_being_asked_is_killed(channel, monkeypatch):
    monkeypatch.setattr(job, "KILL_GRACE", 0.2)
    stubborn = start(channel, "trap '' TERM; echo ready; while :; do sleep 1; done")
    channel.wait_for(lambda: bool(stubborn.stdout), TIMEOUT)
    with pytest.raises(CommandTimeoutError, match=r"still running after 0\.1 s") as caught:
        stubborn.wait(0.1)
    assert caught.value.stdout == b"ready\n"
    assert channel.wait_for(lambda: stubborn.status == 128 + signal.SIGKILL, TIMEOUT)


def test_a_command_whose_caller_names_no_time_has_its_default(channel):
    """The failure names the command, and the last line of each output."""
    silent = start(channel, "exec sleep 1000", has_input=True)
    silent.default_timeout = 0.2
    silent.write(bytes(5 * frames.WINDOW))
    with pytest.raises(
        CommandTimeoutError, match=r"still running after 0\.2 s; it printed nothing"
    ):
        silent.wait()
    talks = start(channel, "echo one; echo 'two\x1b[2J'; echo three >&2; exec sleep 1000")
    channel.wait_for(lambda: bool(talks.stderr), TIMEOUT)
    with pytest.raises(CommandTimeoutError) as caught:
        talks.wait(0.1)
    assert str(caught.value).endswith(r"0.1 s; it printed last: two\x1b[2J; three")
    seen = start(channel, "echo one; exec sleep 1000", sink=lambda kind, data: None)
    with pytest.raises(CommandTimeoutError, match=r"after 0\.1 s$"):
        seen.wait(0.1)


def test_many_commands_at_once_keep_their_output_apart(channel):
    jobs = [start(channel, f"head -c 200000 /dev/zero | tr '\\0' {number}") for number in range(9)]
    for number, one in enumerate(jobs):
        assert one.wait(TIMEOUT) == 0
        assert one.stdout == str(number).encode() * 200_000


def test_a_sink_that_fails_ends_its_command(channel):
    def sink(kind, data):
        raise BrokenPipeError("nobody reads")

    endless = start(channel, "while :; do echo x; done", sink=sink)
    with pytest.raises(BrokenPipeError):
        endless.wait(TIMEOUT)
    assert start(channel, "true").wait(TIMEOUT) == 0


def test_output_without_end_is_cut(channel, monkeypatch):
    monkeypatch.setattr(job, "OUTPUT_LIMIT", 1 << 20)
    with pytest.raises(GuestError, match="output exceeds 1 MiB"):
        start(channel, "cat /dev/zero").wait(TIMEOUT)


def test_an_unknown_program_says_so(channel):
    job = channel.start("nosuch", ["nosuch-program"], {})
    assert job.wait(TIMEOUT) == 127
    assert job.stderr == b"nosuch-program: No such file or directory\n"


def test_a_guest_that_ends_ends_every_wait(channel, child):
    job = start(channel, "exec cat", has_input=True)
    child.kill()
    with pytest.raises(ChannelClosedError):
        job.wait(TIMEOUT)
    with pytest.raises(ChannelClosedError):
        start(channel, "true")


def test_a_guest_that_is_silent_is_given_up(ends, child, monkeypatch):
    monkeypatch.setattr("emu.guests.channel.channel.PING_INTERVAL", 0.1)
    channel = GuestChannel(ends[0], hang_timeout=TIMEOUT)
    assert channel.wait_ready(TIMEOUT)
    job = start(channel, "exec cat", has_input=True)
    channel._ping()
    assert channel.wait_for(lambda: channel._ping_sent is None, TIMEOUT)  # silent, but it answers
    assert not job._is_over()
    child.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(channel, "_hang_timeout", 0.5)
    with pytest.raises(GuestHungError, match=r"did not answer for 0\.5 s"):
        job.wait(TIMEOUT)
    channel.close()


def test_a_guest_that_talks_nonsense_is_given_up(ends):
    ours, theirs = ends
    channel = GuestChannel(ours, hang_timeout=TIMEOUT)
    theirs.sendall(frames.encode(frames.HELLO, 0, frames.MARK + b"6.1"))
    assert channel.wait_ready(TIMEOUT) == "6.1"
    job = start(channel, "true")
    theirs.sendall(frames.HEADER.pack(frames.STDOUT, 1, 0xFFFFFFFF))
    with pytest.raises(GuestError, match="invalid message"):
        job.wait(TIMEOUT)
    channel.close()


def test_a_guest_that_does_not_come_up(ends):
    channel = GuestChannel(ends[0], hang_timeout=TIMEOUT)
    ends[1].sendall(b"garbage")
    assert channel.wait_ready(0.1) is None
    channel.close()
