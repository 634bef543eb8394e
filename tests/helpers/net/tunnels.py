"""Packets inside packets, put together by the RFCs."""

from dataclasses import replace
from struct import pack

from emu.driver.ethernet.frames import MACS, UDP, EthPacket

GRE, IPIP, IPV6_IN_IP = 47, 4, 41
VXLAN_PORT, GENEVE_PORT = 4789, 6081
INNER_MACS = bytes.fromhex("0a000000000b0a000000000c")
ADDRESSES = {
    4: {"source": bytes((192, 168, 0, 1)), "destination": bytes((192, 168, 0, 2))},
    6: {"source": b"\xfd" + bytes(14) + b"\1", "destination": b"\xfd" + bytes(14) + b"\2"},
}
KINDS = (
    "vxlan", "geneve", "geneve_options", "gre_ethernet", "gre", "gre_key", "ip",
)  # fmt: skip

FRAMES = KINDS[:4]
"""Tunnels of Ethernet frames."""


def inner_bytes(kind, inner):
    """The inner packet with what stands in front of it inside the tunnel."""
    frame = INNER_MACS + inner.frame()[len(MACS) :]
    packet = frame[inner.l3 :]
    ethertype = 0x0800 if inner.version == 4 else 0x86DD
    return {
        "vxlan": pack(">II", 8 << 24, 77 << 8) + frame,
        "geneve": pack(">BBHI", 0, 0, 0x6558, 77 << 8) + frame,
        "geneve_options": pack(">BBHI", 2, 0, 0x6558, 77 << 8) + bytes(8) + frame,
        "gre_ethernet": pack(">HH", 0, 0x6558) + frame,
        "gre": pack(">HH", 0, ethertype) + packet,
        "gre_key": pack(">HHII", 0xA000, ethertype, 0, 99) + packet,
        "ip": packet,
    }[kind]


def outer_of(kind, version, inner):
    """The outer packet: a :class:`EthPacket` whose payload is the tunnel's."""
    if kind.startswith(("vxlan", "geneve")):
        protocol = UDP
        ports = pack(">HH", 50000, VXLAN_PORT if kind == "vxlan" else GENEVE_PORT)
    elif kind.startswith("gre"):
        protocol, ports = GRE, b""
    else:
        protocol, ports = IPIP if inner.version == 4 else IPV6_IN_IP, b""
    return EthPacket(
        version=version, protocol=protocol, chain=protocol, ports=ports, checked=False,
        payload=inner_bytes(kind, inner), identifier=0x4321, **ADDRESSES[version],
    )  # fmt: skip


def tunnelled(kind, version, inner):
    """The frame, and where in it the inner IP header begins."""
    outer = outer_of(kind, version, inner)
    frame = outer.frame()
    return frame, len(frame) - len(inner.frame()) + inner.l3


def segments(kind, version, inner, mss):
    """The frames of a large send, one made after the other."""
    payload = inner.payload
    frames = []
    for number, at in enumerate(range(0, len(payload), mss)):
        is_last = at + mss >= len(payload)
        part = replace(
            inner, payload=payload[at : at + mss], sequence=inner.sequence + at,
            identifier=inner.identifier + number,
            flags=inner.flags if is_last else inner.flags & ~0x09,
        )  # fmt: skip
        outer = outer_of(kind, version, part)
        outer.identifier += number
        frames.append(outer.frame())
    return frames
