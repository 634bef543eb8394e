"""Random bytes and random well-formed messages: the server survives and serves the next client."""

import contextlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.server.vfio.protocol import HEADER, MessageFlag, VfioCommand

pytestmark = pytest.mark.hostile

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

small = st.one_of(st.integers(0, 64), st.sampled_from([1 << 31, (1 << 32) - 1]))
large = st.one_of(
    st.integers(0, 1 << 17), st.sampled_from([1 << 32, 1 << 63, (1 << 64) - 4096, (1 << 64) - 1])
)
words = st.lists(
    st.one_of(
        small.map(lambda value: value.to_bytes(4, "little")),
        large.map(lambda value: value.to_bytes(8, "little")),
    ),
    max_size=8,
).map(b"".join)
commands = st.one_of(st.sampled_from(VfioCommand), st.integers(0, 0xFFFF))


@st.composite
def messages(draw):
    """A message whose header is right: most of what it asks for is wrong."""
    payload = draw(st.one_of(words, st.binary(max_size=64)))
    flags = draw(st.sampled_from([0, 0, MessageFlag.NO_REPLY]))
    header = HEADER.pack(draw(small) & 0xFFFF, draw(commands), 16 + len(payload), flags, 0)
    return header + payload, draw(st.integers(0, 3))


def attack(own, client, data, fds=()):
    """Send and step until everything is handled or the client is dropped."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.send_raw(data, fds)
    for _ in range(5):
        own.step()


@relaxed
@given(st.binary(min_size=1, max_size=256), st.booleans())
def test_random_bytes(own, data, negotiated):
    client = own.client() if negotiated else own.connect()
    attack(own, client, data)
    client.close()
    own.settle()
    next_client = own.client()
    assert next_client.device_info() == (16, 3, 9, 5)
    next_client.close()
    own.settle()


@relaxed
@given(st.lists(messages(), min_size=1, max_size=8))
def test_random_messages(own, sent):
    """They keep the stream in step, so the same client can still be served."""
    client = own.client()
    ram = own.ram(1 << 16)
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    for data, number in sent:
        attack(own, client, data, [ram.fd, eventfd, ram.fd][:number])
    assert own.transport.connected
    client.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while client.sock.recv(1 << 16):
            pass
    client.sock.setblocking(True)
    assert client.device_info() == (16, 3, 9, 5)
    client.close()
    own.settle()
    os.close(eventfd)
    own._cleanup.close()
    assert len(own.memory) == 0
