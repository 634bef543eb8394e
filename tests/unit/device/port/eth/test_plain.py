"""Frames for peers that take neither super-frames nor unfinished checksums."""

from struct import pack, pack_into

import pytest

from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import TCP, UDP, FrameError, parse
from emu.device.port.eth.plain import header_bytes, plain
from emu.driver.ethernet.frames import EthPacket

MACS = bytes.fromhex("020000000001 020000000002")


def packet(protocol, payload, checksum=0):
    """An IPv4 packet with TCP or UDP in it, whose transport checksum is not filled in."""
    transport = (
        pack(">HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x18, 5, checksum, 0)
        if protocol == TCP
        else pack(">HHHH", 1, 2, 8 + len(payload), checksum)
    )
    size = 20 + len(transport) + len(payload)
    network = pack(">BBHHHBBH8s", 0x45, 0, size & 0xFFFF, 7, 0, 64, protocol, 0, bytes(8))
    return MACS + b"\x08\0" + network + transport + payload


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("size", [10, 1448, 8000])
def test_a_super_frame_is_cut_with_right_checksums(protocol, size):
    payload = bytes(range(256)) * 40
    frames = plain(Frame(packet(protocol, payload), size, checked=True))
    assert len(frames) == -(-len(payload) // size)
    front = 54 if protocol == TCP else 42
    assert b"".join(frame[front:] for frame in frames) == payload
    for frame in frames:
        received = verify(parse(frame))
        assert received.l3_ok
        assert received.l4_ok


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_a_vouched_checksum_is_filled_in(protocol):
    data = packet(protocol, b"payload", 1)
    assert not verify(parse(data)).l4_ok
    (filled,) = plain(Frame(data, checked=True))
    assert verify(parse(filled)).l4_ok
    assert verify(parse(filled)).l3_ok


def test_a_checksum_that_nobody_vouches_for_stays_as_it_is():
    data = packet(TCP, b"payload", 0xBAD)
    assert plain(Frame(data)) == [data]


@pytest.mark.hostile
@pytest.mark.parametrize("at", [12, 14, 23, 46])
def test_a_super_frame_that_cannot_be_cut(at):
    data = bytearray(packet(TCP, bytes(100)))
    pack_into(">H", data, at, 0)
    with pytest.raises(FrameError):
        plain(Frame(bytes(data), 10))


@pytest.mark.hostile
def test_a_super_frame_of_very_many_frames_is_refused():
    with pytest.raises(FrameError, match="too many"):
        plain(Frame(packet(TCP, bytes(60_000)), 1))


def test_a_checksum_that_is_filled_in_already_is_not_computed_again():
    data = packet(UDP, b"payload", 1)
    assert plain(Frame(data, checked=True, filled=True)) == [data]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "fields",
    [{"protocol": 1, "payload": bytes(40)}, {"fragment": 0x2000}, {"protocol": 132, "fragment": 9}],
)
def test_headers_of_what_cannot_be_a_super_frame(fields):
    with pytest.raises(FrameError, match="neither TCP nor UDP"):
        header_bytes(parse(EthPacket(**fields).frame()))


@pytest.mark.hostile
def test_headers_of_a_frame_without_ip():
    with pytest.raises(FrameError, match="neither TCP nor UDP"):
        header_bytes(parse(bytes(12) + b"\x08\x06" + bytes(46)))
