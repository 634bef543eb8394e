"""A line that must not get more than its reader has room for."""

import contextlib
import select
import socket

import pytest

from emu.guests.channel import frames
from emu.guests.channel.line import WINDOW, SerialLine

HELLO = frames.encode(frames.HELLO, 0, frames.MARK)
SECONDS = 10


@pytest.fixture
def ends():
    """The guest's end of a line, and the channel's."""
    ours, guest = socket.socketpair()
    line = SerialLine(ours)
    guest.settimeout(SECONDS)
    line.connection.settimeout(SECONDS)
    with contextlib.closing(line), guest:
        yield guest, line.connection


def take(sock, size):
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def credit(count):
    return frames.encode(frames.CREDIT, 0, frames.encode_count(count))


def test_no_more_than_the_window_is_on_the_way(ends):
    guest, channel = ends
    sent = bytes(range(256)) * 40
    channel.sendall(sent)
    guest.sendall(HELLO)
    assert take(channel, len(HELLO)) == HELLO
    got = take(guest, WINDOW)
    assert not select.select([guest], [], [], 0.05)[0]
    while len(got) < len(sent):
        guest.sendall(credit(1000))
        got += take(guest, min(1000, len(sent) - len(got)))
    assert got == sent


def test_what_the_guest_says_passes_but_for_its_credits(ends):
    guest, channel = ends
    said = frames.encode(frames.STDOUT, 3, b"text")
    given = frames.encode(frames.CREDIT, 3, frames.encode_count(5))
    guest.sendall(b"noise of the boot" + HELLO + credit(7) + said + credit(9) + given)
    assert take(channel, len(HELLO + said + given)) == HELLO + said + given


@pytest.mark.hostile
def test_a_guest_that_claims_to_have_read_more(ends):
    guest, channel = ends
    guest.sendall(HELLO + credit(2**32 - 1))
    take(channel, len(HELLO))
    channel.sendall(bytes(2 * WINDOW))
    take(guest, WINDOW)
    assert not select.select([guest], [], [], 0.05)[0]


@pytest.mark.hostile
@pytest.mark.parametrize("garbage", [b"\x0a\0\0\0\0\0\1x", b"\1\0\0\xff\xff\xff\xff"])
def test_what_is_no_frame_ends_it(ends, garbage):
    guest, channel = ends
    guest.sendall(HELLO + garbage)
    assert take(channel, 1000) in (b"", HELLO)


def test_either_end_ends_the_other(ends):
    guest, channel = ends
    channel.shutdown(socket.SHUT_RDWR)
    assert guest.recv(1) == b""


def test_the_guests_end(ends):
    guest, channel = ends
    guest.close()
    assert channel.recv(1) == b""
