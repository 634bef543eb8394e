"""What peers say on a fabric: packets without a connection, and descriptions of ports."""

from __future__ import annotations

from dataclasses import replace

from emu.device.port.ib.endport import end_port
from emu.device.port.ib.framing import IbRoute
from emu.device.port.packet import OPS, Packet
from emu.server.net.fabric import port_frames
from layouts.wire.bth import MULTICAST_LID, PacketKind, Service


def packet_frame(slid, dlid=1, kind=PacketKind.SEND, qpn=0x40, *, multicast=False):
    """A packet of a reliable connection, or a datagram for a group."""
    service = Service.UD if multicast else Service.RC
    packet = Packet().of(OPS[service, kind, True, True, None], qpn, 0)
    packet.syndrome = packet.msn = packet.qkey = packet.src_qpn = 0
    return IbRoute(MULTICAST_LID if multicast else dlid, slid, 0, 0xFFFF, None).frame(packet)


def train_frame(slid, dlid, count=4, mtu=1024):
    """A train of packets in the middle of a WRITE."""
    packet = Packet().of(OPS[Service.RC, PacketKind.WRITE, False, False, None], 0x40, 0x20)
    first = IbRoute(dlid, slid, 0, 0xFFFF, None).frame(packet, [memoryview(bytes(mtu))], mtu)
    return first[:-4] + bytes(mtu * (count - 1)) + first[-4:]


def port_of(member, **changes):
    """A port as the member reports it."""
    described = end_port(member.node.hca.port)
    return port_frames.port(replace(described, **changes))
