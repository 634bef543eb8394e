"""Segments of a stream that come one behind the other, and the super-frame that stands for them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.headers import TCP, UDP
from emu.device.port.eth.plain import plain
from emu.driver.ethernet.frames import EthPacket
from emu.server.net.eth.coalesce import super_frame, unfragmented

ACK, PSH = 0x10, 0x18
SIZE = 100
MANY = 64
ADDRESSES = {4: (bytes(4), bytes(3) + b"\1"), 6: (bytes(16), bytes(15) + b"\1")}


def packet(version=4, **fields):
    """As passt sends it: without a number, and without "don't fragment"."""
    source, destination = ADDRESSES[version]
    named = {"identifier": 0, "flags": ACK, "payload": bytes(SIZE)} | fields
    return EthPacket(version=version, source=source, destination=destination, **named)


def stream(count, start=0xFFFFFF00, **fields):
    """Segments with payload that tells them apart; the sequence number wraps."""
    return [
        packet(sequence=start + n * SIZE & 0xFFFFFFFF, payload=bytes([n]) * SIZE, **fields)
        for n in range(count)
    ]


def taken(packets, most=MANY):
    """What becomes of the first of these in a buffer: the frame, and how many are in it."""
    frames = [one.frame() for one in packets]
    lengths = [len(frame) for frame in frames]
    buffer = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    several = super_frame(memoryview(buffer), 4, 4 + lengths[0], most)
    if several is None:
        return None, 1
    frame, end, count = several
    assert end == sum(lengths[:count]) + 4 * count
    return frame, count


@given(
    version=st.sampled_from([4, 6]),
    count=st.integers(2, 12),
    most=st.integers(1, 12),
    start=st.integers(0, 0xFFFFFFFF),
    ends=st.booleans(),
)
def test_it_stands_for_the_same_segments(version, count, most, start, ends):
    packets = stream(count, start, version=version)
    if ends:
        packets[-1] = replace(packets[-1], flags=PSH)
    frame, number = taken(packets, most)
    assert number == min(count, most)
    if frame is not None:
        numbered = [
            replace(one, identifier=at, fragment=0x4000) for at, one in enumerate(packets[:number])
        ]
        assert plain(frame) == [one.frame() for one in numbered]


ELSEWHERE = [
    {"sequence": 1},
    {"ports": bytes(4)},
    {"destination": b"\1\2\3\4"},
    {"tos": 4},
    {"payload": bytes(SIZE - 1)},
]
"""Segments that begin another super-frame."""
ALONE = [
    {"flags": 0},
    {"flags": ACK | 1},
    {"flags": ACK | 2},
    {"flags": ACK | 0x20},
    {"flags": ACK | 0x80},
    {"identifier": 1},
    {"fragment": 0x4000},
    {"fragment": 0x2000},
    {"protocol": UDP},
    {"options": bytes(4), "payload": bytes(SIZE - 4)},
    {"extra": bytes(4), "payload": bytes(SIZE - 4)},
    {"payload": b""},
    {"padding": bytes(4), "payload": bytes(SIZE - 4)},
    {"tags": ((0x8100, 1),), "payload": bytes(SIZE - 4)},
]
"""Packets that are in none."""


@pytest.mark.parametrize("change", ELSEWHERE + ALONE, ids=" ".join)
def test_a_packet_that_does_not_continue_the_stream(change):
    packets = stream(4)
    packets[2] = replace(packets[2], **change)
    assert taken(packets)[1] == 2


@pytest.mark.parametrize("change", ALONE, ids=" ".join)
def test_a_packet_that_begins_no_super_frame(change):
    packets = [replace(one, **change) for one in stream(3)]
    assert taken(packets) == (None, 1)


@pytest.mark.parametrize("at", [14 + 8, 34 + 11, 34 + 14, 34 + 19])
def test_headers_differ_in_time_to_live_acknowledgment_window_or_urgent_pointer(at):
    frames = [bytearray(one.frame()) for one in stream(2)]
    frames[1][at] ^= 1
    buffer = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    assert super_frame(memoryview(buffer), 4, 4 + len(frames[0]), MANY) is None


def test_a_segment_that_is_not_there_as_a_whole_comes_later():
    frames = [one.frame() for one in stream(3)]
    buffer = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    for missing in range(1, len(frames[0]) + 5):
        several = super_frame(memoryview(buffer[:-missing]), 4, 4 + len(frames[0]), MANY)
        assert several is not None
        assert several[2] == 2


def test_no_more_than_an_ip_packet_can_be_long():
    packets = [replace(one, payload=bytes(30_000)) for one in stream(4, start=0)]
    packets = [replace(one, sequence=n * 30_000) for n, one in enumerate(packets)]
    assert taken(packets)[1] == 2


@given(start=st.binary(max_size=80), rest=st.binary(max_size=200), spoilt=st.integers(0, 300))
def test_any_bytes_are_a_frame_or_several(start, rest, spoilt):
    frames = bytearray(b"".join(one.frame() for one in stream(2)))
    frames[spoilt % len(frames)] ^= 0x11
    for first in (start, bytes(frames[:154])):
        buffer = len(first).to_bytes(4, "big") + first + rest
        several = super_frame(memoryview(buffer), 4, 4 + len(first), MANY)
        assert several is None or several[2] > 1


@given(
    version=st.sampled_from([4, 6]),
    protocol=st.sampled_from([TCP, UDP]),
    identifier=st.sampled_from([0, 1]),
    fragment=st.sampled_from([0, 0x2000, 0x4000]),
    size=st.integers(0, 300),
    tos=st.integers(0, 255),
)
def test_packets_without_a_number_are_not_to_be_fragmented(
    version, protocol, identifier, fragment, size, tos
):
    one = packet(
        version, protocol=protocol, chain=protocol, payload=bytes(size), tos=tos,
        identifier=identifier, fragment=fragment,
    )  # fmt: skip
    says_so = version == 4 and protocol == TCP and not identifier and not fragment
    assert unfragmented(one.frame()) == (replace(one, fragment=0x4000) if says_so else one).frame()


@given(data=st.binary(min_size=14, max_size=60))
def test_any_other_bytes_stay_as_they_are(data):
    assert unfragmented(data) == data
