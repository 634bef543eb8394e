"""Large sends: every packet is what the same headers make of its piece, built one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.random.packets import packets
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.headers import FrameError
from emu.device.port.eth.segment import MAX_SEGMENTS, segment
from emu.driver.ethernet.frames import TCP, UDP, EthPacket


def expected(packet, payload, mss):
    """RFC 9293's fields and RFC 768's, packet by packet."""
    pieces = [payload[at : at + mss] for at in range(0, len(payload), mss)]
    for index, piece in enumerate(pieces):
        flags = packet.flags
        if index:
            flags &= ~0x80
        if index < len(pieces) - 1:
            flags &= ~0x09
        yield replace(
            packet,
            payload=piece,
            flags=flags,
            identifier=packet.identifier + index & 0xFFFF,
            sequence=packet.sequence + index * mss & 0xFFFFFFFF,
        ).frame()


@given(packets(), st.integers(1, 700), st.binary(min_size=1, max_size=1500))
def test_all_shapes(packet, mss, payload):
    packet.padding = b""
    assert segment(packet.header(), payload, mss) == list(expected(packet, payload, mss))


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("mss", [1448, 1447, 8948, 65_000])
def test_sixty_four_kilobytes(protocol, mss):
    payload = bytes(range(256)) * 255 + b"the end"
    packet = EthPacket(protocol=protocol, identifier=0xFFF0, sequence=0xFFFFF000, flags=0xFF)
    assert segment(packet.header(), payload, mss) == list(expected(packet, payload, mss))


def test_lengths_and_checksums_of_the_headers_are_not_looked_at():
    packet = EthPacket(version=6, source=bytes(16), destination=bytes(16), payload=b"x" * 100)
    header = bytearray(packet.header())
    header[18:20] = bytes(2)  # as of a packet that is longer than 64 KiB
    header[70:72] = b"\xaa\xbb"
    assert segment(bytes(header), packet.payload, 30) == list(expected(packet, packet.payload, 30))


@pytest.mark.parametrize(
    ("packet", "cut", "mss", "payload", "why"),
    [
        (EthPacket(protocol=1), 0, 100, b"x", "neither TCP nor UDP"),
        (EthPacket(protocol=1), -8, 100, b"x", "neither TCP nor UDP"),
        (EthPacket(fragment=0x2000), 0, 100, b"x", "neither TCP nor UDP"),
        (EthPacket(), 1, 100, b"x", "neither TCP nor UDP"),
        (EthPacket(protocol=UDP), -1, 100, b"x", "do not end with"),
        (EthPacket(), -4, 100, b"x", "do not end with"),
        (EthPacket(), 0, 0, b"x", "without payload or segment size"),
        (EthPacket(), 0, 100, b"", "without payload or segment size"),
        (EthPacket(), 0, 30, bytes(30 * MAX_SEGMENTS + 1), "too many segments"),
        (EthPacket(), 0, 65_496, bytes(65_496), "longer than IP allows"),
        (EthPacket(), 45, 100, b"x", "inside its Ethernet header"),
    ],
)
def test_refused(packet, cut, mss, payload, why):
    header = packet.header()
    header = header[:-cut] if cut > 0 else header + bytes(-cut)
    with pytest.raises(FrameError, match=why):
        segment(header, payload, mss)


def test_as_many_packets_as_there_may_be():
    assert len(segment(EthPacket().header(), bytes(30 * MAX_SEGMENTS), 30)) == MAX_SEGMENTS


def test_longest_packet_that_ip_allows():
    (packet,) = segment(EthPacket().header(), bytes(65_495), 65_495)
    assert packet[16:18] == b"\xff\xff"


@given(st.binary(max_size=80) | packets().map(EthPacket.header), st.integers(0, 70_000), st.data())
def test_anything(header, mss, data):
    """What is not refused keeps the payload and the headers' size."""
    header = bytearray(header)
    for _ in range(data.draw(st.integers(0, 3)) if header else 0):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    payload = data.draw(st.binary(max_size=100))
    try:
        frames = segment(bytes(header), payload, mss)
    except FrameError:
        return
    assert b"".join(frame[len(header) :] for frame in frames) == payload
