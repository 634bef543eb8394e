"""Readers of the fields that STEs match, by their names in the lookup types' structures."""

from __future__ import annotations

from typing import Final

from emu.device.engine.eth.steering.fields import FIELDS
from emu.device.engine.eth.steering.inside import INNER_COST
from emu.device.engine.eth.steering.match_field import Part, Read, costs
from emu.device.port.eth.headers import (
    ETH_ROCE,
    ETH_STAG,
    ETHERNET_BYTES,
    ICMP,
    ICMPV6,
    TCP,
    UDP,
    FrameError,
    Headers,
    parse,
)
from emu.device.port.eth.tunnel import GENEVE_PORT, inner_frame_at, inner_of

_number: Final = int.from_bytes
_STAG: Final = ETH_STAG.to_bytes(2, "big")
_L3: Final = {4: 1, 6: 2}
_SVLAN, _CVLAN = 1, 2
_TUNNEL_PORTS: Final = frozenset({GENEVE_PORT, 4790, 2152})
"""UDP ports of Geneve, VXLAN GPE and GTP; VXLAN's own ports are configured."""


def _outer(name: str) -> Read:
    return FIELDS[f"outer_headers.{name}"].read


def _misc(name: str) -> Read:
    return FIELDS[f"misc_parameters.{name}"].read


def _qualifier(tag: int) -> Read:
    """Return a reader of the kind of tag number ``tag``: 0 none, 1 S-tag, 2 C-tag."""
    at = 12 + 4 * tag

    def read(headers: Headers) -> int:
        if headers.tags <= tag:
            return 0
        return _SVLAN if headers.frame[at : at + 2] == _STAG else _CVLAN

    return read


def _flag(bit: int) -> Read:
    flags = _outer("tcp_flags")
    return lambda headers: (flags(headers) or 0) >> bit & 1


def _l3_ok(headers: Headers) -> int:
    return int(headers.version > 0)


def _l4_ok(headers: Headers) -> int:
    return int(headers.l4 > 0)


def inside(read: Read) -> Read:
    """Return a reader of the same field in the packet inside a tunnel; None without a tunnel."""

    def inner(headers: Headers) -> int | None:
        at = inner_frame_at(headers, headers.parser)
        if at and len(headers.frame) >= at + ETHERNET_BYTES:
            try:
                return read(parse(headers.frame[at:], whole=False))
            except FrameError:
                return None
        packet = inner_of(headers, headers.parser, whole=False)
        return None if packet is None else read(packet)

    return costs(INNER_COST, inner)


L2: Final[dict[str, Read]] = {
    "dmac_47_16": _outer("dmac_47_16"), "dmac_15_0": _outer("dmac_15_0"),
    "smac_47_16": _outer("smac_47_16"), "smac_15_0": _outer("smac_15_0"),
    "l3_ethertype": _outer("ethertype"), "first_priority": _outer("first_prio"),
    "first_cfi": _outer("first_cfi"), "first_vlan_id": _outer("first_vid"),
    "first_vlan_qualifier": _qualifier(0), "second_vlan_qualifier": _qualifier(1),
    "second_priority": _misc("outer_second_prio"), "second_cfi": _misc("outer_second_cfi"),
    "second_vlan_id": _misc("outer_second_vid"), "ip_fragmented": _outer("frag"),
    "l3_type": lambda headers: _L3.get(headers.version, 0), "l4_type": _outer("l4_type"),
    "tcp_syn": _flag(1), "l2_ok": lambda headers: 1, "l3_ok": _l3_ok, "l4_ok": _l4_ok,
}  # fmt: skip
"""Fields of the Ethernet header."""


def _address(version: int, destination: bool, word: int) -> Read:
    """Return a reader of 4 bytes of an IP address; None for another IP version."""

    def read(headers: Headers) -> int | None:
        if headers.version != version:
            return None
        both = headers.addresses
        at = (len(both) // 2 if destination else 0) + 4 * word
        return _number(both[at : at + 4], "big")

    return read


def _port(start: int) -> Read:
    return lambda headers: _number(headers.ports[start : start + 2], "big")


def _of_ip(version: int, start: int, octets: int) -> Read:
    """Return a reader of bytes of the IP header; None for another IP version."""

    def read(headers: Headers) -> int | None:
        at = headers.l3 + start
        if headers.version != version:
            return None
        return _number(headers.frame[at : at + octets], "big")

    return read


def _part(name: str) -> Part | None:
    return FIELDS[f"outer_headers.{name}"].part


_WORDS: Final = ("127_96", "95_64", "63_32", "31_0")
IP: Final[dict[str, Read]] = {
    "source_address": _address(4, False, 0), "destination_address": _address(4, True, 0),
    **{f"src_ip_{name}": _address(6, False, word) for word, name in enumerate(_WORDS)},
    **{f"dst_ip_{name}": _address(6, True, word) for word, name in enumerate(_WORDS)},
    "source_port": _port(0), "destination_port": _port(2), "src_port": _port(0),
    "dst_port": _port(2), "l3_ok": _l3_ok, "l4_ok": _l4_ok, "fragmented": _outer("frag"),
    **{
        f"tcp_{name}": _flag(bit)
        for bit, name in enumerate(("fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"))
    },
    "dscp": _outer("ip_dscp"), "ecn": _outer("ip_ecn"), "protocol": _outer("ip_protocol"),
    "identification": _of_ip(4, 4, 2), "total_length": _of_ip(4, 2, 2),
    "version": lambda headers: headers.version, "ihl": _outer("ipv4_ihl"),
    "time_to_live": _outer("ttl_hoplimit"), "ipv6_version": lambda headers: headers.version,
    "ipv6_hop_limit": _outer("ttl_hoplimit"), "flow_label": _misc("outer_ipv6_flow_label"),
    "ipv6_paylen": _of_ip(6, 4, 2),
}  # fmt: skip
"""Fields of the network header, and the ports."""


def _transport(protocols: frozenset[int], start: int, octets: int) -> Read:
    """Return a reader of bytes of the transport header; None for other protocols."""

    def read(headers: Headers) -> int | None:
        if headers.protocol not in protocols or not headers.l4:
            return None
        at = headers.l4 + start
        return _number(headers.frame[at : at + octets], "big")

    return read


_TCP: Final = frozenset({TCP})
_ICMP: Final = frozenset({ICMP, ICMPV6})


def _either(tcp: Read, icmp: Read, shift: int = 0) -> Read:
    """Return a reader of TCP's field, or of ICMP's, shifted, in an ICMP packet."""

    def read(headers: Headers) -> int | None:
        if headers.protocol in _ICMP:
            value = icmp(headers)
            return None if value is None else value << shift
        return tcp(headers)

    return read


PARTS: Final[dict[Read, Part | None]] = {
    **{field.read: field.part for field in FIELDS.values()},
    **{
        IP[name]: _part("src_ipv4_src_ipv6")
        for name in ("source_address", "destination_address")
    },
    **{IP[f"{end}_ip_{n}"]: _part("src_ipv4_src_ipv6") for end in ("src", "dst") for n in _WORDS},
    **{
        IP[name]: _part("udp_dport")
        for name in ("source_port", "destination_port", "src_port", "dst_port")
    },
    **{read: _part("tcp_flags") for name, read in IP.items() if name.startswith("tcp_")},
    L2["tcp_syn"]: _part("tcp_flags"),
    **{
        L2[name]: None
        for name in (
            "first_vlan_qualifier", "second_vlan_qualifier", "l3_type", "l2_ok", "l3_ok", "l4_ok"
        )
    },
    IP["version"]: None,
    IP["ipv6_version"]: None,
}  # fmt: skip
"""Key part of each field. None for a field in ``fields.base``; a missing field is its own key part.
Fields of one key part are decided together, so that fewer are read."""

ICMP_OR_TCP: Final[dict[str, Read]] = {
    "window_size": _either(_transport(_TCP, 14, 2), _transport(_ICMP, 8, 2)),
    "urgent_pointer": _either(_transport(_TCP, 18, 2), _transport(_ICMP, 10, 2)),
    "ack_num": _either(_transport(_TCP, 8, 4), _transport(_ICMP, 4, 4)),
    "seq_num": _either(_transport(_TCP, 4, 4), _transport(_ICMP, 0, 2), 16),
}
"""Fields of one lookup type: TCP's, or ICMP's (ste_icmp_v1) in an ICMP packet."""

GRE: Final[dict[str, Read]] = {
    "gre_c_present": _misc("gre_c_present"), "gre_k_present": _misc("gre_k_present"),
    "gre_s_present": _misc("gre_s_present"), "gre_protocol": _misc("gre_protocol"),
    "gre_key_h": lambda headers: (_misc("gre_key")(headers) or 0) >> 8,
    "gre_key_l": _misc("gre_key"),
}  # fmt: skip


def _tunnel(word: int) -> Read:
    """Return a reader of 4 bytes behind UDP; None unless the port is a tunnel's."""
    at = 8 + 4 * word

    def read(headers: Headers) -> int | None:
        if headers.protocol != UDP or not headers.l4:
            return None
        port = _number(headers.ports[2:], "big")
        if port not in _TUNNEL_PORTS and port not in headers.parser.vxlan_ports:
            return None
        return _number(headers.frame[headers.l4 + at : headers.l4 + at + 4], "big")

    return read


def _network_id(headers: Headers) -> int:
    return (_misc("vxlan_vni")(headers) or 0) << 8


TUNNEL: Final[dict[str, Read]] = {
    "tunnel_header_0": _tunnel(0), "tunnel_header_1": _tunnel(1),
    "l2_tunneling_network_id": _network_id,
}  # fmt: skip
"""Fields of the header behind UDP's."""


def _bth(start: int, octets: int) -> Read:
    """Return a reader of bytes of RoCE's BTH; None for other packets."""
    opcode = _misc("bth_opcode")

    def read(headers: Headers) -> int | None:
        if opcode(headers) is None:
            return None
        at = headers.l3 + 40 if headers.ethertype == ETH_ROCE else headers.l4 + 8
        return _number(headers.frame[at + start : at + start + octets], "big")

    return read


ROCE: Final[dict[str, Read]] = {
    "opcode": _misc("bth_opcode"), "qp": _misc("bth_dst_qp"),
    "se": lambda headers: (_bth(1, 1)(headers) or 0) >> 7,
    "ackreq": lambda headers: (_bth(8, 1)(headers) or 0) >> 7,
    "pkey": _bth(2, 2),
}  # fmt: skip
"""Fields of the base transport header (BTH)."""
