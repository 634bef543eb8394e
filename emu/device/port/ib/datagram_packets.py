"""Conversion of unreliable datagrams to packets and back (IBTA 9.8.3)."""

from __future__ import annotations

from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.ib.framing import IbRoute
from emu.device.port.packet import OPS, GlobalHeader, Packet
from layouts.wire import bth
from layouts.wire.bth import PacketKind, Service


def frame_of(datagram: Datagram, origin: Origin) -> bytes:
    """Return the packet that carries a datagram, from its local route header on.

    A global route header is added if the destination has a GID.
    """
    to = datagram.to
    grh = None
    if to.gid is not None:
        grh = GlobalHeader(origin.gid, to.gid, to.tclass, to.flow_label, to.hop_limit)
    ending = None if datagram.immediate is None else bth.imm_dt
    packet = Packet().of(OPS[Service.UD, PacketKind.SEND, True, True, ending], to.qpn, 0)
    packet.immediate, packet.solicited = datagram.immediate, datagram.solicited
    packet.qkey, packet.src_qpn = origin.qkey, origin.qpn
    route = IbRoute(to.lid, origin.lid, to.sl, origin.pkey, grh)
    return route.frame(packet, datagram.data, datagram.length)


def datagram_of(packet: Packet) -> tuple[Datagram, Origin]:
    """Return the datagram in a UD packet and its origin; its data is a view of the packet.

    ``to.gid`` is None and the origin's GID zeros without a global route header.
    """
    grh = packet.grh
    to = Destination(
        qpn=packet.qpn,
        qkey=packet.qkey,
        lid=packet.dlid,
        sl=packet.sl,
        path_bits=0,
        gid=grh.dgid if grh is not None else None,
        tclass=grh.tclass if grh is not None else 0,
        flow_label=grh.flow_label if grh is not None else 0,
        hop_limit=grh.hop_limit if grh is not None else 0,
    )
    payload = packet.payload
    datagram = Datagram(to, (payload,), len(payload), packet.immediate, packet.solicited)
    gid = grh.sgid if grh is not None else bytes(16)
    return datagram, Origin(packet.slid, packet.src_qpn, packet.pkey, packet.qkey, gid)
