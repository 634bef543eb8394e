"""Fields that entries of software match: those of a packet, and None for headers that it lacks."""

import pytest
from helpers.net.tunnels import GENEVE_PORT, VXLAN_PORT

from emu.device.engine.eth.ste.match_fields import ICMP_OR_TCP, IP, L2, ROCE, TUNNEL
from emu.device.objects.eth.parser import Parser
from emu.device.port.eth.headers import ETH_CTAG, ETH_STAG, ICMP, ROCE_PORT, parse
from emu.driver.ethernet.frames import TCP, UDP, EthPacket

V6 = {"version": 6, "source": b"\xfd" + bytes(14) + b"\1", "destination": b"\xfe" + bytes(15)}
FRAGMENT = 0x2000
WORDS = bytes.fromhex("0800000012345600")
BTH = bytes.fromhex("04000123000000110000000500000000")


def udp(port, protocol=UDP, **parts):
    return EthPacket(
        protocol=protocol, ports=b"\0\1" + port.to_bytes(2, "big"), payload=WORDS + bytes(20),
        **parts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tags", "first", "second"),
    [((), 0, 0), ((ETH_STAG,), 1, 0), ((ETH_CTAG,), 2, 0), ((ETH_STAG, ETH_CTAG), 1, 2)],
)
def test_kinds_of_tags(tags, first, second):
    headers = parse(EthPacket(tags=tuple((tag, 5) for tag in tags)).frame())
    assert L2["first_vlan_qualifier"](headers) == first
    assert L2["second_vlan_qualifier"](headers) == second


@pytest.mark.parametrize(
    ("name", "in_4", "in_6"),
    [
        ("source_address", 0x0A000001, None), ("src_ip_127_96", None, 0xFD000000),
        ("dst_ip_127_96", None, 0xFE000000), ("src_ip_31_0", None, 1),
        ("identification", 0x1234, None), ("total_length", 47, None), ("ipv6_paylen", None, 27),
    ],
)  # fmt: skip
def test_of_one_version(name, in_4, in_6):
    assert IP[name](parse(EthPacket().frame())) == in_4
    assert IP[name](parse(EthPacket(**V6).frame())) == in_6


@pytest.mark.parametrize(
    ("packet", "value"),
    [
        (EthPacket(sequence=0x11223344), 0x11223344),
        (EthPacket(protocol=ICMP, payload=b"\x08\0\x12\x34" + bytes(4)), 0x0800_0000),
        (EthPacket(protocol=UDP, payload=bytes(40)), None),
        (EthPacket(fragment=FRAGMENT), None),
    ],
)
def test_transport_of_tcp_or_icmp(packet, value):
    assert ICMP_OR_TCP["seq_num"](parse(packet.frame())) == value


@pytest.mark.parametrize(
    ("packet", "value"),
    [
        (udp(VXLAN_PORT), 0x08000000), (udp(GENEVE_PORT), 0x08000000), (udp(9), None),
        (udp(GENEVE_PORT, TCP), None), (udp(GENEVE_PORT, fragment=FRAGMENT), None),
    ],
)  # fmt: skip
def test_header_behind_udp(packet, value):
    assert TUNNEL["tunnel_header_0"](parse(packet.frame())) == value


def test_a_fragment_has_no_port_0():
    headers = parse(udp(0, fragment=FRAGMENT).frame())
    headers.parser = Parser(vxlan_ports=frozenset({0}))
    assert TUNNEL["tunnel_header_0"](headers) is None


@pytest.mark.parametrize(("port", "value"), [(ROCE_PORT, 0x0123), (ROCE_PORT + 1, None)])
def test_base_transport_header(port, value):
    packet = EthPacket(protocol=UDP, ports=b"\0\1" + port.to_bytes(2, "big"), payload=BTH)
    assert ROCE["pkey"](parse(packet.frame())) == value
