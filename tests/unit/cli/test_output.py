"""A command's standard input, given by a thread that nobody waits for, and its notices."""

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from emu import cli
from emu.cli.shared.notice import notice
from emu.cli.shared.output import feed
from emu.guests.channel import frames
from emu.guests.channel.channel import GuestChannel
from emu.guests.errors import ChannelClosedError


class Stdin:
    """Standard input with a descriptor, which pytest's own has not."""

    def __init__(self, fd):
        self._fd = fd

    def fileno(self):
        return self._fd


class Job:
    """Takes input until ``limit`` calls; then its channel has been closed by whoever waited."""

    def __init__(self, most=99):
        self.took = []
        self._left = most

    def write(self, data):
        self._take(data)

    def close_input(self):
        self._take(b"")

    def _take(self, data):
        if not self._left:
            raise ChannelClosedError("the guest has ended")
        self._left -= 1
        self.took.append(data)


@pytest.fixture
def stdin(monkeypatch):
    """Make standard input a pipe with this in it."""
    ends = []

    def given(data):
        reader, writer = os.pipe()
        os.write(writer, data)
        os.close(writer)
        ends.append(reader)
        monkeypatch.setattr(sys, "stdin", Stdin(reader))

    yield given
    for fd in ends:
        os.close(fd)


def test_all_of_it_then_its_end(stdin):
    stdin(b"data")
    job = Job()
    feed(job)
    assert job.took == [b"data", b""]


@pytest.mark.parametrize("most", [0, 1])
def test_a_command_that_has_ended_meanwhile(stdin, most):
    """Whoever waited for it has closed the channel, between any two of our steps."""
    stdin(b"data")
    job = Job(most)
    feed(job)
    assert len(job.took) == most


@pytest.mark.parametrize("at", ["before", "meanwhile"])
def test_a_channel_that_is_closed(stdin, at):
    """The same with a channel: the exit arrives, `exec` closes, the thread sends the end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = GuestChannel(ours, 30)
        job = channel.start("true", ["true"], {}, has_input=True)
        theirs.sendall(frames.encode(frames.HELLO, 0, frames.MARK + b"6.12"))
        theirs.sendall(frames.encode(frames.EXIT, job.number, b"\0"))
        assert job.wait(30) == 0
        stdin(b"data" if at == "meanwhile" else b"")
        channel.close()
        feed(job)


@pytest.mark.parametrize("fd", [-1, None])
def test_input_that_cannot_be_read_has_ended(monkeypatch, fd):
    monkeypatch.setattr(sys, "stdin", None if fd is None else Stdin(fd))
    job = Job()
    feed(job)
    assert job.took == [b""]


def test_a_directory_has_no_input(monkeypatch, tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(sys, "stdin", Stdin(fd))
    job = Job()
    feed(job)
    os.close(fd)
    assert job.took == [b""]


def test_a_notice_controls_no_terminal(capsys):
    notice("a\x1b[2J\nb")
    assert capsys.readouterr() == ("", "mlx5emu: a\\x1b[2J\nb\n")


def test_only_notices_begin_with_the_name_of_the_program():
    folder = Path(cli.__file__).parent
    found = [
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r'"(\\n)?mlx5emu: ', path.read_text())
    ]
    assert found == ["shared/notice.py"]
