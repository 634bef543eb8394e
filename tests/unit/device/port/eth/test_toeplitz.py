"""The Toeplitz hash: the published verification data, and a model that goes bit by bit.

Source of the data: "Verifying the RSS Hash Calculation" in Microsoft's driver documentation.
"""

from __future__ import annotations

from ipaddress import ip_address
from struct import pack

import pytest
from helpers.random.packets import packets
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.headers import parse
from emu.device.port.eth.toeplitz import INPUT_BYTES, Hasher, inverted_xor8, tables, toeplitz
from emu.driver.ethernet.frames import TCP, UDP, EthPacket
from layouts.enums.cqe import CqeHashType
from layouts.enums.tir import HashField, L3ProtType, L4ProtType, RxHashFn

KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
IP = HashField.SRC_IP | HashField.DST_IP
PORTS = HashField.L4_SPORT | HashField.L4_DPORT

PUBLISHED = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323E8FC2, 0x51CCC178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xD718262A, 0xC626B0EA),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xD2D0A5DE, 0x5C2B394A),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xAFC7327F),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5D1809C5, 0x10E828A2),
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2CC18CD5, 0x40207D3D),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0F0C461C, 0xDDE51BBF),
    (
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        "fe80::200:f8ff:fe21:67cf",
        38024,
        0x4B61E985,
        0x02D1FEEF,
    ),
]


def bit_by_bit(key, data):
    number, value = int.from_bytes(key, "big"), 0
    for bit in range(len(data) * 8):
        if data[bit // 8] >> (7 - bit % 8) & 1:
            value ^= number >> (len(key) * 8 - 32 - bit) & 0xFFFFFFFF
    return value


def packet_of(source, source_port, destination, destination_port, protocol=TCP):
    first, second = ip_address(source), ip_address(destination)
    return EthPacket(
        version=first.version,
        source=first.packed,
        destination=second.packed,
        protocol=protocol,
        chain=protocol,
        ports=pack(">HH", source_port, destination_port),
    )


def hasher(packet, fields, *, symmetric=False, function=RxHashFn.TOEPLITZ, protocol=None):
    l3 = L3ProtType.IPV4 if packet.version == 4 else L3ProtType.IPV6
    l4 = L4ProtType.TCP if (protocol or packet.protocol) == TCP else L4ProtType.UDP
    return Hasher(function, KEY, l3, l4, fields, symmetric)


class TestFunction:
    @given(st.binary(min_size=40, max_size=40), st.binary(max_size=INPUT_BYTES))
    def test_against_the_model(self, key, data):
        assert toeplitz(tables(key), data) == bit_by_bit(key, data)

    @pytest.mark.parametrize("size", [0, 39, 41])
    def test_key_of_another_length(self, size):
        with pytest.raises(ValueError, match=f"key has {size} bytes, must have 40"):
            tables(bytes(size))

    def test_inverted_xor8(self):
        assert inverted_xor8(b"\x0f\xf0\x01") == 0x01
        assert inverted_xor8(b"") == 0xFF


@pytest.mark.parametrize(
    ("source", "sport", "destination", "dport", "addresses", "with_ports"), PUBLISHED
)
def test_published_data(source, sport, destination, dport, addresses, with_ports):
    packet = packet_of(source, sport, destination, dport)
    headers = parse(packet.frame())
    l3 = CqeHashType.IPV4 if packet.version == 4 else CqeHashType.IPV6
    assert hasher(packet, IP)(headers) == (addresses, l3)
    assert hasher(packet, IP | PORTS)(headers) == (with_ports, l3 | CqeHashType.L4_TCP)


class TestSelection:
    @given(packets(), st.sampled_from(range(16)))
    def test_fields_in_the_order_of_their_bits(self, packet, selected):
        fields = HashField(selected)
        both = [packet.source, packet.destination, packet.ports[:2], packet.ports[2:]]
        data = b"".join(part for bit, part in enumerate(both) if selected >> bit & 1)
        value, kind = hasher(packet, fields)(parse(packet.frame()))
        assert value == bit_by_bit(KEY, data)
        assert bool(kind & 0x0C) == bool(fields & IP)
        assert bool(kind & 0xC0) == bool(fields & PORTS)

    @given(packets())
    def test_symmetric(self, packet):
        """Both directions of a flow are one."""
        back = EthPacket(**{**vars(packet), "source": packet.destination,
                         "destination": packet.source,
                         "ports": packet.ports[2:] + packet.ports[:2]})  # fmt: skip
        one = hasher(packet, IP | PORTS, symmetric=True)
        assert one(parse(packet.frame())) == one(parse(back.frame()))

    @pytest.mark.parametrize(
        ("row", "addresses", "with_ports"),
        [(0, 0x277806FE, 0xA65524FA), (1, 0x0EFD860B, 0x69D9C235)],
    )
    def test_symmetric_or_xor(self, row, addresses, with_ports):
        """(SIP | DIP, SIP ^ DIP, SP | DP, SP ^ DP), computed by hand from the published rows."""
        packet = packet_of(*PUBLISHED[row][:4])
        headers = parse(packet.frame())
        assert hasher(packet, IP, symmetric=True)(headers)[0] == addresses
        assert hasher(packet, IP | PORTS, symmetric=True)(headers)[0] == with_ports

    def test_fragment_has_no_ports(self):
        packet = packet_of(*PUBLISHED[0][:4])
        packet.fragment = 0x2000
        found = hasher(packet, IP | PORTS)(parse(packet.frame()))
        assert found == (PUBLISHED[0][4], CqeHashType.IPV4)

    def test_other_transport_has_no_ports(self):
        packet = packet_of(*PUBLISHED[0][:4], UDP)
        found = hasher(packet, IP | PORTS, protocol=TCP)(parse(packet.frame()))
        assert found == (PUBLISHED[0][4], CqeHashType.IPV4)

    def test_other_ip_version(self):
        packet = packet_of(*PUBLISHED[0][:4])
        other = packet_of(*PUBLISHED[5][:4])
        assert hasher(packet, IP)(parse(other.frame())) == (0, 0)

    @pytest.mark.parametrize(("protocol", "at"), [(50, 0), (51, 4)])
    def test_security_parameters_index(self, protocol, at):
        packet = EthPacket(protocol=protocol, payload=bytes(at) + b"\1\2\3\4" + bytes(8))
        headers = parse(packet.frame())
        value, kind = hasher(packet, IP | HashField.IPSEC_SPI)(headers)
        assert value == bit_by_bit(KEY, packet.source + packet.destination + b"\1\2\3\4")
        assert kind == CqeHashType.IPV4 | CqeHashType.L4_IPSEC

    def test_functions(self):
        packet = packet_of(*PUBLISHED[0][:4])
        headers = parse(packet.frame())
        assert hasher(packet, IP, function=RxHashFn.NONE)(headers) == (0, 0)
        assert hasher(packet, HashField(0))(headers) == (0, 0)
        xor8 = hasher(packet, IP, function=RxHashFn.INVERTED_XOR8)
        assert xor8(headers)[0] == inverted_xor8(packet.source + packet.destination)


def test_flows_that_are_kept_are_bounded():
    packet = packet_of(*PUBLISHED[0][:4])
    one = hasher(packet, IP | PORTS)
    for port in range(Hasher.CACHED + 10):
        packet.ports = pack(">HH", port, 80)
        value, _ = one(parse(packet.frame()))
        if port % 999 == 0:
            assert value == bit_by_bit(KEY, packet.source + packet.destination + packet.ports)
    assert len(one._cache) <= Hasher.CACHED
