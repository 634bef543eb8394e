"""Datagrams at a function's port: count each one and deliver it to its queue pairs.

The adapter itself handles performance management MADs at QP1 and subnet management packets at QP0
(see ``emu.device.port.ib.pma`` and ``sma``). All other datagrams are for queue pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.ud import datagram as ud
from emu.device.engine.ud import smp as own_smps
from emu.device.objects.queues.qp import Qp
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib import pma, sma
from emu.device.port.ib.datagram import answer_to, may_manage
from emu.device.rounds.portions import Portions
from emu.device.state.containment import contain
from layouts.enums.caps import PortType
from layouts.enums.qp import QpType
from layouts.wire.mads import MAD_BYTES, MgmtClass, pma_mad

if TYPE_CHECKING:
    from emu.device.port.link import DatagramReceiver, PacketCounts
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

log = logging.getLogger(__name__)

QP0: Final = 0
QP1: Final = 1
_UD: Final = QpType.UD
_IB: Final = PortType.IB


def arrive(hca: Hca, packet: Datagram, origin: Origin, *, is_looped: bool = False) -> None:
    """Receive a datagram for the function's LID, or for a multicast group of its queue pairs.

    ``is_looped`` means that the function itself sent it, so the physical port did not receive it.
    Dropped uncounted while the link is down, except an SMP for QP0. Counted as received even
    without a receiver, except for a group without members here. A copy waits behind earlier
    datagrams, or when the round's budget is used up; beyond the backlog's limit ``dropped["backlog
    is full"]`` counts it. Never raises: an exception fails the function.
    """
    if not (hca.link.is_up or _is_for_manager(hca.link, packet)):
        return
    if hca.backlogs.rx.is_free:
        contain(hca.health, partial(_take, hca, packet, origin, is_looped))
    elif not hca.backlogs.rx.keep(packet.octets, _take, hca, packet.copied(), origin, is_looped):
        hca.link.dropped["backlog is full"] += 1


def _take(hca: Hca, packet: Datagram, origin: Origin, is_looped: bool) -> None:
    """Count a datagram and deliver it to the agent, queue pair or group members it names.

    A datagram for another GID is counted in ``link.dropped`` by its reason. One without a receiver
    is dropped, counted only as received.
    """
    if not (hca.link.is_up or _is_for_manager(hca.link, packet)):
        return
    if packet.to.gid is not None and (why := hca.link.misrouted(origin.gid, packet.to.gid)):
        _count(hca.link, packet, is_looped)
        hca.link.dropped[why] += 1
        return
    if packet.is_multicast:
        members = list(hca.mcgs.get(packet.to.gid or b"", ()))
        if members:
            _count(hca.link, packet, is_looped)
        deliver_multicast(hca, members, packet, origin)
        return
    _count(hca.link, packet, is_looped)
    if packet.to.qpn in _AGENTS and _answer_by_agent(hca, packet, origin):
        return
    qp = _receiver(hca, packet.to.qpn)
    if qp is not None:
        ud.receive(hca, qp, packet, origin)


def _count(link: PacketCounts, packet: Datagram, is_looped: bool) -> None:
    link.count_received(1, packet.octets, multicast=packet.is_multicast)
    if is_looped:
        link.count_looped(1, packet.octets, multicast=packet.is_multicast)


def deliver_multicast(hca: Hca, members: Sequence[Qp], packet: Datagram, origin: Origin) -> None:
    """Deliver a group's datagram to its members; continue next round when the budget ends.

    The sender gets no copy if it blocks multicast loopback. The received datagram is counted by the
    caller.
    """
    for at, member in enumerate(members):
        if hca.budget.exhausted(hca.budget.limit):
            rest = _rest(hca, members[at:], packet.copied(), origin)
            hca.backlogs.rx.begin(rest, packet.octets)
            return
        if not _is_own(hca.link, member, origin):
            ud.receive(hca, member, packet, origin)


def _rest(hca: Hca, members: Sequence[Qp], packet: Datagram, origin: Origin) -> Portions[None]:
    """Deliver a datagram to the remaining members; yield while the budget is used up.

    Members that were destroyed meanwhile are skipped.
    """
    for member in members:
        while hca.budget.exhausted(hca.budget.limit):
            yield
        if hca.qps.get(member.handle) is member and not _is_own(hca.link, member, origin):
            ud.receive(hca, member, packet, origin)


def send(hca: Hca, packet: Datagram, origin: Origin) -> None:
    """Count a datagram as sent and put it on the wire; drop it uncounted while the link is down.

    An SMP for QP0 needs only the physical link.
    """
    if hca.link.is_up or _is_for_manager(hca.link, packet):
        hca.link.count_sent(1, packet.octets, multicast=packet.is_multicast)
        hca.wire.datagram(hca, packet, origin)


def _is_for_manager(link: DatagramReceiver, packet: Datagram) -> bool:
    """Return whether a port that is not up takes it: an SMP needs only a link (IBTA 7.2.7)."""
    return packet.to.qpn == QP0 and link.has_link


def _receiver(tables: ObjectTables, qpn: int) -> Qp | None:
    """Return the UD queue pair with this number; for 0 and 1 the special one, else None."""
    if qpn in (QP0, QP1):
        return tables.special_qps.get(qpn)
    qp = tables.qps.get(qpn)
    return qp if qp is not None and qp.st is _UD else None


def _is_own(link: DatagramReceiver, qp: Qp, origin: Origin) -> bool:
    """Return whether the QP sent this datagram and blocks multicast loopback.

    Source: IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK.
    """
    return qp.blocks_loopback and origin.qpn == qp.handle and link.has_sent(origin)


def _answer_by_agent(hca: Hca, packet: Datagram, origin: Origin) -> bool:
    """Let the port's own agents respond to a MAD; return whether one has sent a response.

    False when the datagram is for a queue pair: not a MAD's length, no request for an agent, or any
    datagram on RoCE.
    """
    if hca.model.port_type is not _IB or packet.length != MAD_BYTES:
        return False  # with RoCE mlx5_ib responds by itself (hw/mad.c: process_pma_cmd)
    qpn = packet.to.qpn
    answer = _AGENTS[qpn](hca, b"".join(packet.data), origin)
    if answer is None:
        return False
    to = answer_to(packet.to, origin)
    source = Origin(hca.link.lid, qpn, origin.pkey, to.qkey, hca.link.gid(0))
    send(hca, Datagram(to, [memoryview(answer)], MAD_BYTES, None, False), source)
    return True


def _subnet_management(hca: Hca, mad: bytes, origin: Origin) -> bytes | None:
    """Return the response to an SMP; None if the SMP is for QP0 or has no response.

    The datagram then goes to the queue pair. SMPs have no keys, but a virtual lane only for QP0:
    SMPs of other senders are not answered (IBTA 13.5.1).
    """
    taken = sma.taken_at_qp0(mad) if origin.qpn == QP0 else None
    return None if taken is None else own_smps.answer(hca, taken, origin.lid)


def _performance_management(hca: Hca, mad: bytes, origin: Origin) -> bytes | None:
    """Return the response to a PerfMgt Get or Set, also one with an error status.

    None for other methods, other classes and wrong keys; the datagram then goes to the queue pair.
    """
    if not may_manage(hca.ib, origin):
        return None
    is_for_us = pma_mad.view(mad).mad_hdr.mgmt_class == MgmtClass.PERF_MGMT
    return pma.answer(hca.ib, mad) if is_for_us else None


_AGENTS: Final = {QP0: _subnet_management, QP1: _performance_management}
