"""What passt is given of a frame: short ones without padding, TCP super-frames whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.headers import TCP, UDP, parse
from emu.driver.ethernet.frames import EthPacket
from emu.server.net.eth.passt import _is_tcp, _unpadded

PACKETS = [
    EthPacket(payload=b"").frame(),
    EthPacket(payload=b"ab").frame(),
    EthPacket(version=6, payload=b"").frame(),
    EthPacket(protocol=UDP, payload=b"abc").frame(),
]


def spoilt(data, at, value):
    changed = bytearray(data)
    changed[at % len(data)] = value
    return bytes(changed)


FRAMES = st.one_of(
    st.binary(min_size=14, max_size=60),
    st.builds(spoilt, st.sampled_from(PACKETS), st.integers(12, 60), st.integers(0, 255)),
)


@given(frame=FRAMES, padding=st.integers(0, 6))
def test_the_end_is_where_the_packet_ends(frame, padding):
    frame += bytes(padding)
    assert _unpadded(frame) == frame[: parse(frame).end or len(frame)]


@given(frame=FRAMES)
def test_tcp_is_found_as_in_all_headers(frame):
    assert _is_tcp(frame) is (parse(frame, whole=False).protocol == TCP)


@pytest.mark.parametrize("size", range(14, 20))
def test_a_frame_that_ends_in_its_ip_header(size):
    assert _unpadded(PACKETS[0][:size]) == PACKETS[0][:size]
