"""Internet checksums against RFC 1071 done word by word."""

from __future__ import annotations

import pytest
from helpers.random.packets import packets
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.checksum import adjust, complete, insert, total, totals, trusted, verify
from emu.device.port.eth.headers import parse
from emu.driver.ethernet.frames import TCP, UDP, EthPacket, ones_complement_sum

IPV6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


def same(value, data):
    """Whether a sum is that of ``data``; 0 and 0xffff are one."""
    return value % 0xFFFF == ones_complement_sum(data) % 0xFFFF


@given(st.binary(max_size=2100))
def test_sums(data):
    assert same(total(data), data)


@pytest.mark.parametrize("size", [255, 256, 257, 258, 263, 2047, 2048, 9000, 65535, 65536, 100_001])
@pytest.mark.parametrize("byte", [0x00, 0x01, 0xFF])
def test_sums_of_many_bytes(size, byte):
    data = bytes([byte]) * (size - 1) + b"\x5a"
    assert same(total(data), data)


@given(st.integers(1, 600), st.binary(min_size=1, max_size=2000))
def test_sums_of_pieces(size, data):
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [value % 0xFFFF for value in totals(pieces)] == [total(p) % 0xFFFF for p in pieces]


@pytest.mark.parametrize("size", [258, 1448, 2048, 2050, 8948])
def test_sums_of_long_pieces(size):
    data = bytes(range(256)) * 100
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [value % 0xFFFF for value in totals(pieces)] == [total(p) % 0xFFFF for p in pieces]


class TestSending:
    @given(packets(), st.booleans(), st.booleans())
    def test_both(self, packet, l3, l4):
        """From zero or from the pseudo-header's sum, as Linux leaves it there."""
        frame = packet.frame()
        blank = bytearray(frame)
        if packet.version == 4:
            blank[packet.l3 + 10 : packet.l3 + 12] = bytes(2)
        at = packet.l4 + (16 if packet.protocol == TCP else 6)
        length = len(frame) - len(packet.padding) - packet.l4
        blank[at : at + 2] = ones_complement_sum(packet.pseudo(length)).to_bytes(2, "big")
        result = insert(parse(bytes(blank)), l3, l4)
        want = bytearray(blank)
        if l3 and packet.version == 4:
            want[packet.l3 + 10 : packet.l3 + 12] = frame[packet.l3 + 10 : packet.l3 + 12]
        if l4:
            want[at : at + 2] = frame[at : at + 2]
        assert result == bytes(want)

    def test_udp_never_sends_that_it_has_none(self):
        """A checksum that comes out as 0 is sent as 0xffff (RFC 768)."""
        packet = EthPacket(protocol=UDP, payload=bytes(2))
        left = ones_complement_sum(packet.pseudo(10) + packet.ports + b"\0\x0a\0\0")
        packet.payload = (0xFFFF - left).to_bytes(2, "big")
        blank = bytearray(packet.frame())
        blank[packet.l4 + 6 : packet.l4 + 8] = bytes(2)
        assert insert(parse(bytes(blank)), True, True)[packet.l4 + 6 : packet.l4 + 8] == b"\xff\xff"

    @pytest.mark.parametrize(
        "fields",
        [
            {"protocol": 1},
            {"protocol": 132, "payload": b"\0\1\0\2\0\x0c" * 2},
            {"fragment": 0x2000},
        ],
        ids=str,
    )
    def test_no_transport_that_has_one(self, fields):
        frame = EthPacket(**fields).frame()
        assert insert(parse(frame), False, True) == frame

    @pytest.mark.parametrize("length", [0, 7, 16])
    def test_udp_length_that_makes_no_sense(self, length):
        frame = bytearray(EthPacket(protocol=UDP).frame())
        frame[38:40] = length.to_bytes(2, "big")
        assert insert(parse(bytes(frame)), True, True) == bytes(frame)

    @given(st.binary(min_size=14, max_size=120))
    def test_anything(self, frame):
        result = insert(parse(frame), True, True)
        assert len(result) == len(frame)


class TestAdjusting:
    @given(packets(), st.booleans())
    def test_what_is_told_of_a_completed_frame(self, packet, is_padded):
        """The same as of one that came from somewhere else, with its checksums in it."""
        packet.padding *= is_padded
        headers = parse(packet.frame())
        complete(headers)
        assert headers.frame == insert(parse(packet.frame()), l3=True, l4=True)
        known = trusted(parse(headers.frame))
        assert known == verify(parse(headers.frame))
        if headers.sums is not None:
            assert headers.sums == known
        elif packet.version == 4 and not packet.tags:
            assert packet.padding

    @given(packets(), st.data())
    def test_right_stays_right_and_wrong_stays_wrong(self, packet, data):
        """Addresses, TTL and ports change; the packet is then as one that was built so."""
        frame = bytearray(packet.frame())
        wrong = data.draw(st.booleans())
        if wrong:
            frame[packet.l4 + (16 if packet.protocol == TCP else 6)] ^= 0x55
        headers = parse(bytes(frame))
        size = len(packet.source)
        start = packet.l3 + (12 if packet.version == 4 else 8)
        frame[start : start + 2 * size] = data.draw(st.binary(min_size=2 * size, max_size=2 * size))
        frame[packet.l4 : packet.l4 + 4] = data.draw(st.binary(min_size=4, max_size=4))
        frame[packet.l3 + (8 if packet.version == 4 else 7)] = data.draw(st.integers(0, 255))
        adjust(headers, frame)
        found = verify(parse(bytes(frame)))
        assert found.l3_ok
        if not wrong:
            assert found.l4_ok
        elif packet.protocol == TCP:
            assert not found.l4_ok

    @pytest.mark.parametrize("version", [{}, IPV6 | {"chain": UDP}], ids=["IPv4", "IPv6"])
    def test_udp_without_a_checksum_keeps_none(self, version):
        """Tunnels over IPv6 may leave it out as well (RFC 6935)."""
        packet = EthPacket(protocol=UDP, checked=False, **version)
        frame = bytearray(packet.frame())
        headers = parse(bytes(frame))
        frame[packet.l4] ^= 1
        adjust(headers, frame)
        assert frame[packet.l4 + 6 : packet.l4 + 8] == bytes(2)

    @pytest.mark.parametrize(
        "fields", [{"protocol": 1, "payload": bytes(16)}, {"fragment": 0x2000}], ids=str
    )
    def test_what_has_no_transport_checksum(self, fields):
        """Only the IP header's is updated."""
        packet = EthPacket(**fields)
        frame = bytearray(packet.frame())
        headers = parse(bytes(frame))
        frame[packet.l3 + 12] ^= 1
        rest = bytes(frame[packet.l4 :])
        adjust(headers, frame)
        assert verify(parse(bytes(frame))).l3_ok
        assert bytes(frame[packet.l4 :]) == rest


class TestReceiving:
    @given(packets())
    def test_right_ones(self, packet):
        frame = packet.frame()
        for found in (verify(parse(frame)), trusted(parse(frame))):
            assert same(found.check_sum, frame[14:])
            assert 0 <= found.check_sum < 1 << 16
            assert (found.l3_ok, found.l4_ok) == (True, True)

    @given(packets(), st.data())
    def test_a_bit_that_is_wrong(self, packet, data):
        """Behind the transport header's beginning nothing changes but the transport's verdict."""
        frame = bytearray(packet.frame())
        end = len(frame) - len(packet.padding)
        low = packet.l4 + (18 if packet.protocol == TCP else 8)
        if packet.protocol == UDP and not packet.payload:
            low = packet.l4
            at = data.draw(st.integers(low, low + 3))
        else:
            at = data.draw(st.integers(low, end - 1))
        frame[at] ^= 1 << data.draw(st.integers(0, 7))
        found = verify(parse(bytes(frame)))
        assert same(found.check_sum, frame[14:])
        assert (found.l3_ok, found.l4_ok) == (True, False)

    @given(st.integers(0, 19), st.integers(0, 7))
    def test_ipv4_header(self, at, bit):
        frame = bytearray(EthPacket().frame())
        frame[14 + at] ^= 1 << bit
        assert not verify(parse(bytes(frame))).l3_ok

    @given(
        st.binary(min_size=14, max_size=200) | packets().map(EthPacket.frame),
        st.integers(14, 200),
    )
    def test_anything(self, frame, size):
        found = verify(parse(frame[:size]))
        assert same(found.check_sum, frame[14:size])

    @pytest.mark.parametrize(("fields", "right"), [({}, True), (IPV6, False)], ids=("v4", "v6"))
    def test_udp_without_a_checksum(self, fields, right):
        frame = EthPacket(protocol=UDP, chain=UDP, checked=False, **fields).frame()
        for found in (verify(parse(frame)), trusted(parse(frame))):
            assert same(found.check_sum, frame[14:])
            assert found.l4_ok is right

    @pytest.mark.parametrize("fields", [{"fragment": 1}, {"protocol": 1}, {"tags": ((0x8100, 1),)}])
    def test_what_trust_does_not_help(self, fields):
        frame = EthPacket(**fields).frame()
        found = trusted(parse(frame))
        assert same(found.check_sum, frame[14:])
        assert found.l4_ok == ("tags" in fields)

    def test_trust_reads_no_payload(self):
        """That is what it is for: a payload that was changed is not noticed."""
        frame = bytearray(EthPacket().frame())
        want = trusted(parse(bytes(frame))).check_sum
        frame[-1] ^= 1
        assert trusted(parse(bytes(frame))).check_sum == want
        assert not verify(parse(bytes(frame))).l4_ok

    def test_other_ethertypes(self):
        arp = bytes(12) + b"\x08\x06" + bytes(range(46))
        found = verify(parse(arp))
        assert same(found.check_sum, arp[14:])
        assert (found.l3_ok, found.l4_ok) == (False, False)
