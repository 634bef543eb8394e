"""Readers of the packet fields that flow groups can match.

Names are those of fte_match_param, as ``part.field``. A field whose header the packet lacks is None
and matches no entry. Two exceptions exist because drivers match the absence: without a VLAN tag the
tag's fields are 0, and without an IP header ip_version is 0. ``inside`` has the fields of packets
in tunnels.

Source: mlx5_ifc.h (fte_match_set_lyr_2_4, fte_match_set_misc); PRM "Flow steering".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from emu.device.engine.eth.steering import geneve_option, icmp, inside
from emu.device.engine.eth.steering.match_field import MatchField, Read
from emu.device.port.eth.headers import (
    ESP,
    ETH_CTAG,
    ETH_ROCE,
    ETH_STAG,
    GRE,
    ROCE_PORT,
    TCP,
    UDP,
    Headers,
    Marked,
)
from emu.device.port.eth.tunnel import GENEVE_PORT
from layouts.enums.modify_header import ModifyField
from layouts.wire.bth import bth, grh

_CTAG: Final = ETH_CTAG.to_bytes(2, "big")
_STAG: Final = ETH_STAG.to_bytes(2, "big")
_L4_TYPE: Final = {TCP: 1, UDP: 2}  # MLX5_PACKET_L4_TYPE_*
_number: Final = int.from_bytes
_GRH_BYTES: Final = grh.size
_BTH_BYTES: Final = bth.size
_UDP_BYTES: Final = 8
_GENEVE_PORTS: Final = frozenset({GENEVE_PORT})
_ROCE_PORTS: Final = frozenset({ROCE_PORT})
_GRE_KEYED_BYTES: Final = 12
_TUNNEL_BYTES: Final = 8
"""Bytes matched of a VXLAN, Geneve or base transport header."""


def base(headers: Headers) -> tuple[bytes, int]:
    """Return the part of every cache key: bytes before the network header, and kinds of headers.

    The kinds are IP version, protocol, and whether the packet is a fragment and has a transport
    header.
    """
    kind = headers.version << 10 | headers.protocol << 2
    if headers.fragment:
        kind |= 2
    if headers.l4:
        kind |= 1
    return headers.frame[: headers.l3], kind


def _octets(start: int, stop: int) -> Read:
    return lambda headers: _number(headers.frame[start:stop], "big")


def _tci(tag: int, shift: int, mask: int) -> Read:
    """Return a reader of some bits of a tag's TCI, 0 without the tag."""
    at = 14 + 4 * tag

    def read(headers: Headers) -> int:
        if headers.tags <= tag:
            return 0
        return _number(headers.frame[at : at + 2], "big") >> shift & mask

    return read


def _tagged(tag: int, tpid: bytes) -> Read:
    """Return a reader of whether the tag exists and has this EtherType."""
    at = 12 + 4 * tag
    return lambda headers: int(headers.tags > tag and headers.frame[at : at + 2] == tpid)


def cvlan_tag_alone(headers: Headers) -> int | None:
    """Return cvlan_tag for a group without svlan_tag: 0 means no tag of either type.

    None for a packet whose first tag is an S-tag. mlx5e's rule for untagged packets relies on 0
    (core/en_fs.c: MLX5E_VLAN_RULE_TYPE_UNTAGGED).
    """
    if headers.tags and headers.frame[12:14] == _STAG:
        return None
    return int(headers.tags > 0)


def _ip_protocol(headers: Headers) -> int | None:
    return headers.protocol if headers.version else None


def _traffic_class(headers: Headers) -> bytes:
    return headers.frame[headers.l3 : headers.l3 + 2] if headers.version else b""


def _tos(shift: int, mask: int) -> Read:
    """Return a reader of bits of the IPv4 TOS or IPv6 traffic class; None without IP."""

    def read(headers: Headers) -> int | None:
        if not headers.version:
            return None
        word = _number(_traffic_class(headers), "big")
        tos = word & 0xFF if headers.version == 4 else word >> 4 & 0xFF
        return tos >> shift & mask

    return read


def _ihl(headers: Headers) -> int | None:
    return headers.frame[headers.l3] & 0xF if headers.version == 4 else None


def _ttl(headers: Headers) -> int | None:
    if not headers.version:
        return None
    return headers.frame[headers.l3 + (8 if headers.version == 4 else 7)]


def _addresses(headers: Headers) -> bytes:
    return headers.addresses if headers.version else b""


def _address(destination: bool) -> Read:
    """Return a reader of the source or destination IP address; None without IP."""

    def read(headers: Headers) -> int | None:
        if not headers.version:
            return None
        both = headers.addresses
        half = len(both) // 2
        return _number(both[half:] if destination else both[:half], "big")

    return read


def _ports(headers: Headers) -> bytes:
    return headers.ports


def _port(protocol: int, start: int) -> Read:
    """Return a reader of a port of TCP or UDP, whichever ``protocol`` is; None for others."""

    def read(headers: Headers) -> int | None:
        if headers.protocol != protocol or not headers.l4:
            return None
        return _number(headers.frame[headers.l4 + start : headers.l4 + start + 2], "big")

    return read


def _tcp_flags(headers: Headers) -> int | None:
    if headers.protocol != TCP or not headers.l4:
        return None
    return _number(headers.frame[headers.l4 + 12 : headers.l4 + 14], "big") & 0x1FF


def _l4_type(headers: Headers) -> int:
    return _L4_TYPE.get(headers.protocol, 0) if headers.l4 else 0


def _flow_label(headers: Headers) -> int | None:
    if headers.version != 6:
        return None
    return _number(headers.frame[headers.l3 : headers.l3 + 4], "big") & 0xFFFFF


def _after_udp(headers: Headers, ports: Collection[int], size: int) -> bytes:
    """Return ``size`` bytes behind a UDP header whose destination port is one of ``ports``.

    Return empty bytes for other packets, and if the packet ends earlier.
    """
    if headers.protocol != UDP or not headers.l4:
        return b""
    if _number(headers.ports[2:], "big") not in ports or headers.l4 + 8 + size > headers.end:
        return b""
    return headers.frame[headers.l4 + 8 : headers.l4 + 8 + size]


def _tunnel(headers: Headers) -> bytes:
    """Return the bytes that decide the fields of tunnels, RoCE and ESP.

    Lengths, checksums and sequence numbers are excluded: they differ between packets of one flow.
    """
    if headers.ethertype == ETH_ROCE:
        return _after_grh(headers)[:_TUNNEL_BYTES]
    frame, l4, end = headers.frame, headers.l4, headers.end
    if not l4:
        return b""
    if headers.protocol == UDP:
        whole = min(end - l4, _UDP_BYTES + _BTH_BYTES)
        tunnel = frame[l4 + _UDP_BYTES : min(l4 + _UDP_BYTES + _TUNNEL_BYTES, end)]
        return frame[l4 + 2 : l4 + 4] + tunnel + bytes((whole,))
    if headers.protocol == GRE:
        return _gre(headers)[:_GRE_KEYED_BYTES]
    return frame[l4 : l4 + 4] if headers.protocol == ESP else b""


def _vxlan_vni(headers: Headers) -> int | None:
    """Return the VNI of a packet to a VXLAN port with the I flag, else None."""
    vxlan = _after_udp(headers, headers.parser.vxlan_ports, 8)
    return _number(vxlan[4:7], "big") if vxlan and vxlan[0] & 8 else None


def _geneve(start: int, stop: int, mask: int) -> Read:
    """Return a reader of bits of Geneve's first 8 bytes (RFC 8926 3.4); None without Geneve."""

    def read(headers: Headers) -> int | None:
        geneve = _after_udp(headers, _GENEVE_PORTS, _TUNNEL_BYTES)
        return _number(geneve[start:stop], "big") & mask if geneve else None

    return read


def _mpls_over_udp(headers: Headers) -> int | None:
    """Return the first MPLS label's four bytes behind UDP (RFC 7510), else None.

    None also while no MPLS port is configured.
    """
    label = _after_udp(headers, (headers.parser.mpls_port,), 4)
    return _number(label, "big") if label and headers.parser.mpls_port else None


def _geneve_oam(headers: Headers) -> int | None:
    flags = _geneve(1, 2, 0x80)(headers)
    return None if flags is None else flags >> 7


def _after_grh(headers: Headers) -> bytes:
    """Return the base transport header of RoCE v1; empty when it is incomplete."""
    at = headers.l3 + _GRH_BYTES
    return headers.frame[at : at + _BTH_BYTES] if len(headers.frame) >= at + _BTH_BYTES else b""


def _bth(start: int, stop: int) -> Read:
    """Return a reader of bytes of RoCE's base transport header; None without one."""

    def read(headers: Headers) -> int | None:
        if headers.ethertype == ETH_ROCE:
            bth = _after_grh(headers)
        else:
            bth = _after_udp(headers, _ROCE_PORTS, _BTH_BYTES)
        return _number(bth[start:stop], "big") if bth else None

    return read


def _gre(headers: Headers) -> bytes:
    """Return a GRE header with its optional words (RFC 2890); empty without one."""
    if headers.protocol != GRE or not headers.l4:
        return b""
    return headers.frame[headers.l4 : min(headers.l4 + 16, headers.end)]


def _gre_bit(bit: int) -> Read:
    """Return a reader of a bit of GRE's first byte; None without GRE."""

    def read(headers: Headers) -> int | None:
        gre = _gre(headers)
        return gre[0] >> bit & 1 if gre else None

    return read


def _gre_protocol(headers: Headers) -> int | None:
    gre = _gre(headers)
    return _number(gre[2:4], "big") if gre else None


def _gre_key(headers: Headers) -> int | None:
    """Return the GRE key; None without GRE, without a key, or for an incomplete header."""
    gre = _gre(headers)
    at = 8 if gre and gre[0] & 0x80 else 4
    if not gre or not gre[0] & 0x20 or len(gre) < at + 4:
        return None
    return _number(gre[at : at + 4], "big")


def _sqn(headers: Headers) -> int | None:
    """Return the sending queue's number; None for a received frame or one without a queue."""
    return headers.sqn or None


def source(headers: Headers) -> int | None:
    """Return the source vPort with its switch's manager; None outside a switch."""
    return headers.source if isinstance(headers, Marked) else None


def _source_port(headers: Headers) -> int | None:
    return headers.source_port if isinstance(headers, Marked) else None


def _source_owner(headers: Headers) -> int | None:
    return headers.source_owner if isinstance(headers, Marked) else None


def _register(number: int) -> Read:
    """Return a reader of a metadata register; 0 if no earlier entry has written it.

    A packet may arrive with registers from a switch's tables.
    """

    def read(headers: Headers) -> int:
        return headers.registers.get(number, 0) if isinstance(headers, Marked) else 0

    return read


def _esp_spi(headers: Headers) -> int | None:
    if headers.protocol != ESP or not headers.l4:
        return None
    return _number(headers.frame[headers.l4 : headers.l4 + 4], "big")


_OUTER: Final = {
    "dmac_47_16": MatchField(_octets(0, 4)),
    "dmac_15_0": MatchField(_octets(4, 6)),
    "smac_47_16": MatchField(_octets(6, 10)),
    "smac_15_0": MatchField(_octets(10, 12)),
    "ethertype": MatchField(lambda headers: headers.ethertype),
    "first_prio": MatchField(_tci(0, 13, 7)),
    "first_cfi": MatchField(_tci(0, 12, 1)),
    "first_vid": MatchField(_tci(0, 0, 0xFFF)),
    "cvlan_tag": MatchField(_tagged(0, _CTAG)),
    "svlan_tag": MatchField(_tagged(0, _STAG)),
    "ip_version": MatchField(lambda headers: headers.version),
    "ip_protocol": MatchField(_ip_protocol),
    "ip_dscp": MatchField(_tos(2, 0x3F), _traffic_class),
    "ip_ecn": MatchField(_tos(0, 3), _traffic_class),
    "frag": MatchField(lambda headers: int(headers.fragment)),
    "l4_type": MatchField(_l4_type),
    "ipv4_ihl": MatchField(_ihl, _traffic_class),
    "ttl_hoplimit": MatchField(_ttl, _ttl),
    "src_ipv4_src_ipv6": MatchField(_address(False), _addresses),
    "dst_ipv4_dst_ipv6": MatchField(_address(True), _addresses),
    "tcp_flags": MatchField(_tcp_flags, _tcp_flags),
    "tcp_sport": MatchField(_port(TCP, 0), _ports),
    "tcp_dport": MatchField(_port(TCP, 2), _ports),
    "udp_sport": MatchField(_port(UDP, 0), _ports),
    "udp_dport": MatchField(_port(UDP, 2), _ports),
}

_MISC: Final = {
    "source_sqn": MatchField(_sqn, _sqn),
    "source_port": MatchField(_source_port, source),
    "source_eswitch_owner_vhca_id": MatchField(_source_owner, source),
    "outer_second_prio": MatchField(_tci(1, 13, 7)),
    "outer_second_cfi": MatchField(_tci(1, 12, 1)),
    "outer_second_vid": MatchField(_tci(1, 0, 0xFFF)),
    "outer_second_cvlan_tag": MatchField(_tagged(1, _CTAG)),
    "outer_second_svlan_tag": MatchField(_tagged(1, _STAG)),
    "outer_ipv6_flow_label": MatchField(_flow_label, _flow_label),
    "gre_c_present": MatchField(_gre_bit(7), _tunnel),
    "gre_k_present": MatchField(_gre_bit(5), _tunnel),
    "gre_s_present": MatchField(_gre_bit(4), _tunnel),
    "gre_protocol": MatchField(_gre_protocol, _tunnel),
    "gre_key": MatchField(_gre_key, _tunnel),
    "vxlan_vni": MatchField(_vxlan_vni, _tunnel),
    "geneve_vni": MatchField(_geneve(4, 7, 0xFFFFFF), _tunnel),
    "geneve_oam": MatchField(_geneve_oam, _tunnel),
    "geneve_opt_len": MatchField(_geneve(0, 1, 0x3F), _tunnel),
    "geneve_protocol_type": MatchField(_geneve(2, 4, 0xFFFF), _tunnel),
    "bth_opcode": MatchField(_bth(0, 1), _tunnel),
    "bth_dst_qp": MatchField(_bth(5, 8), _tunnel),
    "outer_esp_spi": MatchField(_esp_spi, _tunnel),
}

REGISTERS: Final[dict[int, MatchField]] = {
    number: MatchField(_register(number), _register(number))
    for number in range(ModifyField.METADATA_REG_C_0, ModifyField.METADATA_REG_C_0 + 8)
}
"""Registers C. A copied field becomes a key part through the copying entry (``domain.add_entry``).
"""

_MISC_2: Final = {f"metadata_reg_c_{n}": field for n, field in enumerate(REGISTERS.values())}
_MISC_2["outer_first_mpls_over_udp"] = MatchField(_mpls_over_udp, _mpls_over_udp)

FIELDS: Final[dict[str, MatchField]] = {
    **{f"outer_headers.{name}": field for name, field in _OUTER.items()},
    **{f"inner_headers.{name}": field for name, field in inside.fields(_OUTER).items()},
    **{f"misc_parameters.{name}": field for name, field in _MISC.items()},
    **{f"misc_parameters_2.{name}": field for name, field in _MISC_2.items()},
    **{f"misc_parameters_3.{name}": field for name, field in icmp.FIELDS.items()},
    **{f"misc_parameters_3.{name}": field for name, field in geneve_option.FIELDS.items()},
}
"""All fields that can be matched, by their names in fte_match_param."""

OF_SWITCHES: Final = frozenset(
    {"misc_parameters.source_port", "misc_parameters.source_eswitch_owner_vhca_id"}
)
"""Fields that can be matched only in a switch's tables, and in the manager's NIC_RX."""
