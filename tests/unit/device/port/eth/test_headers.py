"""Frames are taken apart as they were put together, and anything at all is taken."""

from __future__ import annotations

import pytest
from helpers.random.packets import packets
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.headers import MAX_EXTENSIONS, FrameError, parse
from emu.device.port.eth.vlan import insert_tag, pad, strip_tag
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket

IPV6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


@given(packets())
def test_well_formed_packets(packet):
    frame = packet.frame()
    headers = parse(frame)
    assert (headers.frame, headers.l3, headers.l4) == (frame, packet.l3, packet.l4)
    assert (headers.version, headers.protocol) == (packet.version, packet.protocol)
    assert headers.tags == len(packet.tags)
    assert headers.addresses == packet.source + packet.destination
    assert headers.ports == packet.ports
    assert headers.end == len(frame) - len(packet.padding)
    assert not headers.fragment


@given(packets())
def test_headers_alone(packet):
    """As a large send gives them: the lengths are those of the whole."""
    header = packet.header()
    headers = parse(header, whole=False)
    assert (headers.l4, headers.protocol) == (packet.l4, packet.protocol)
    assert headers.end == len(header)


@given(st.binary(max_size=120) | packets().map(EthPacket.frame), st.data())
def test_whatever_comes(frame, data):
    """Only a frame without an Ethernet header is refused; what is found lies inside the frame."""
    frame = bytearray(frame[: data.draw(st.integers(0, len(frame)))])
    for _ in range(data.draw(st.integers(0, 3)) if frame else 0):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    if len(frame) < 14:
        with pytest.raises(FrameError, match="Ethernet header"):
            parse(bytes(frame))
        return
    headers = parse(bytes(frame))
    assert 14 <= headers.l3 <= len(frame)
    assert headers.end <= len(frame)
    if headers.l4:
        assert headers.version
        assert headers.l3 + 20 <= headers.l4 <= headers.end
    assert len(headers.ports) in (0, 4)


def malformed(**change):
    """A packet of which a byte, counted from the IP header, is another."""
    frame = bytearray(EthPacket(**{k: v for k, v in change.items() if k != "at"}).frame())
    for at, value in change["at"].items():
        frame[14 + at] = value
    return parse(bytes(frame))


class TestMalformed:
    @pytest.mark.parametrize("at", [{0: 0x44}, {0: 0x65}, {0: 0x4F}, {3: 19}, {2: 0xFF}], ids=str)
    def test_ipv4(self, at):
        headers = malformed(at=at)
        assert (headers.ethertype, headers.version, headers.l4, headers.end) == (0x800, 0, 0, 0)

    @pytest.mark.parametrize("at", [{0: 0x45}, {4: 0xFF}], ids=str)
    def test_ipv6(self, at):
        headers = malformed(**IPV6, at=at)
        assert (headers.ethertype, headers.version, headers.l4) == (0x86DD, 0, 0)

    @pytest.mark.parametrize("size", [15, 33, 14])
    def test_frame_ends_inside_the_ip_header(self, size):
        assert parse(EthPacket().frame()[:size]).version == 0
        assert parse(EthPacket(**IPV6).frame()[:size]).version == 0

    @pytest.mark.parametrize("at", [{32: 0x40}, {32: 0xF0}], ids=str)
    def test_tcp_header_length(self, at):
        headers = malformed(at=at)
        assert (headers.version, headers.protocol, headers.l4) == (4, TCP, 0)
        assert headers.ports == b""

    def test_transport_header_that_is_cut_off(self):
        packet = EthPacket(protocol=17)
        frame = packet.front + packet.network(7) + bytes(7)
        assert parse(frame).l4 == 0

    def test_third_tag_is_the_ethertype(self):
        packet = EthPacket(tags=((0x88A8, 1), (0x8100, 2), (0x8100, 3)))
        headers = parse(packet.frame())
        assert (headers.ethertype, headers.l3, headers.tags) == (0x8100, 22, 2)

    def test_tag_that_is_cut_off(self):
        headers = parse(MACS + b"\x81\x00\x00")
        assert (headers.ethertype, headers.l3) == (0x8100, 14)


class TestFragments:
    @pytest.mark.parametrize("fragment", [0x2000, 0x0001, 0x3FFF])
    def test_ipv4(self, fragment):
        headers = parse(EthPacket(fragment=fragment).frame())
        assert (headers.version, headers.protocol, headers.l4) == (4, TCP, 0)
        assert headers.fragment
        assert headers.ports == b""

    @pytest.mark.parametrize("fragment", [0, 0x4000])
    def test_ipv4_whole(self, fragment):
        assert not parse(EthPacket(fragment=fragment).frame()).fragment

    @pytest.mark.parametrize(("offset", "fragment"), [(0, False), (1, True), (8, True), (6, False)])
    def test_ipv6(self, offset, fragment):
        """A fragment header alone makes no fragment (RFC 6946)."""
        extra = bytes([TCP, 0]) + offset.to_bytes(2, "big") + bytes(4)
        headers = parse(EthPacket(**IPV6, chain=44, extra=extra).frame())
        assert (headers.protocol, headers.fragment) == (TCP, fragment)
        assert bool(headers.l4) is not fragment


class TestExtensions:
    def chained(self, count):
        extra = bytes([60, 0]) + bytes(6)
        last = bytes([UDP, 0]) + bytes(6)
        return EthPacket(**IPV6, protocol=UDP, chain=60, extra=extra * (count - 1) + last)

    def test_longest_chain_that_is_walked(self):
        assert parse(self.chained(MAX_EXTENSIONS - 1).frame()).protocol == UDP
        assert parse(self.chained(MAX_EXTENSIONS + 9).frame()).l4 == 0

    def test_extension_that_leaves_the_packet(self):
        headers = parse(EthPacket(**IPV6, chain=0, extra=bytes([TCP, 255]) + bytes(6)).frame())
        assert (headers.protocol, headers.l4) == (TCP, 0)

    def test_authentication_header_is_the_protocol(self):
        headers = parse(EthPacket(**IPV6, chain=51, protocol=51, payload=bytes(12)).frame())
        assert (headers.protocol, headers.l4) == (51, 54)


class TestTags:
    @given(packets(), st.integers(0, 0xFFFF))
    def test_what_is_inserted_is_stripped(self, packet, tci):
        frame = packet.frame()
        assert strip_tag(insert_tag(frame, tci)) == (frame, tci)

    @given(st.binary(max_size=40))
    def test_anything(self, frame):
        if len(frame) < 14:
            with pytest.raises(FrameError):
                insert_tag(frame, 1)
        else:
            assert (
                insert_tag(frame, 0x2064, 0x88A8) == frame[:12] + b"\x88\xa8\x20\x64" + frame[12:]
            )
        if stripped := strip_tag(frame):
            assert insert_tag(*stripped) == frame

    @pytest.mark.parametrize("tags", [(), ((0x88A8, 5),)])
    def test_only_customer_tags_are_stripped(self, tags):
        assert strip_tag(EthPacket(tags=tags).frame()) is None

    @pytest.mark.parametrize("size", [14, 16, 17])
    def test_tag_that_is_cut_off_stays(self, size):
        assert strip_tag((bytes(12) + b"\x81\x00\x00\x05\x08\x00")[:size]) is None

    @pytest.mark.parametrize(("size", "padded"), [(14, 60), (59, 60), (60, 60), (61, 61)])
    def test_padding(self, size, padded):
        assert pad(b"x" * size) == b"x" * size + bytes(padded - size)
