"""IP over InfiniBand (IPoIB) on Ethernet queues: receives and sends datagrams of an underlay QP.

An underlay is a datagram QP without rings; it owns the interface's QPN, P_Key and multicast groups.
Its datagrams are steered like frames to receive queues, from the flow table that is its root. A
send queue whose TIS names the underlay sends with the underlay's QPN. A receive WQE gets the GRH,
or 40 undefined bytes, and then the packet. The CQE has the sender's QPN, and the underlay's, as
several interfaces may share receive queues.

Source: core/ipoib/ipoib.c, core/en_rx.c: mlx5i_complete_rx_cqe, core/en_tx.c: mlx5i_sq_xmit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.gather import FrameLengthError
from emu.device.engine.eth.requests import RECEIVE_POINT, request, target_of
from emu.device.engine.eth.steering.route import Delivery, route
from emu.device.engine.eth.tunnels.header_kind import kind_of
from emu.device.engine.events import completions
from emu.device.engine.ud import datagram as ud
from emu.device.engine.ud import delivery
from emu.device.engine.wqe import ipoib as requests
from emu.device.engine.wqe.messages import read_av
from emu.device.objects.eth.rq import Rq
from emu.device.objects.memory.views import copy
from emu.device.port.datagram import GRH_BYTES, Datagram, Origin
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.headers import FrameError, Headers, parse
from emu.device.port.ib import ipoib
from emu.device.rounds.costs import STEPS_PER_DELIVERY, STEPS_PER_FRAME
from layouts.enums.cqe import CqeChecked, CqeOpcode
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpState
from layouts.enums.wq import RqState
from layouts.enums.wqe import Opcode
from layouts.rings.eth_cqe import ETH_CQE

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca
    from emu.device.state.timer import FreeRunningTimer

_RTS: Final = QpState.RTS
_RDY: Final = RqState.RDY
_LSO: Final = int(Opcode.LSO)
_OP_OWN: Final = CqeOpcode.RESP_SEND << 4
_WORD: Final = 0xFFFFFFFF
_L3_OK: Final = int(CqeChecked.L3)
_ALL_OK: Final = int(CqeChecked.L3 | CqeChecked.L4)


def receive(hca: Hca, qp: Qp, datagram: Datagram, origin: Origin) -> bool:
    """Deliver an underlay's datagram to the receive queues of its flow table.

    Return False when none takes it: no root table, no matching entry, or too short for its
    encapsulation header (counted as dropped at the link). Return True also if a queue then drops
    it. The caller has checked P_Key and Q_Key.
    """
    root = hca.flow_domains[FlowTableType.NIC_RX].underlays.get(qp.handle)
    if root is None:
        return False
    packet = b"".join(datagram.data)
    try:
        headers = parse(ipoib.as_frame(packet))
    except FrameError:
        hca.link.dropped["shorter than its encapsulation header"] += 1
        return False
    queues = route(hca, headers, len(packet), root=root) or ()
    for to in queues:
        _deliver(hca, qp, packet, headers, datagram, origin, to)
    return bool(queues)


def _deliver(
    hca: Hca,
    qp: Qp,
    packet: bytes,
    headers: Headers,
    datagram: Datagram,
    origin: Origin,
    to: Delivery,
) -> None:
    """Fill the queue's next receive WQE and post its CQE, or drop the datagram.

    Count the drop as out_of_buffer, or at the link for unsuitable WQEs. A queue outside RDY and a
    fault plan drop it uncounted.
    """
    hca.budget.charge(STEPS_PER_DELIVERY)
    rq, length = to.rq, GRH_BYTES + len(packet)
    if rq.state is not _RDY or (wqe := request(hca, rq)) is None:
        return
    target = target_of(hca, rq, wqe, 0, length)
    if target is None:
        return
    if hca.probes.faults is not None and not hca.probes.faults.show(RECEIVE_POINT, rq, wqe, length):
        return
    grh, flags, _ = hca.link.describe(datagram, origin)
    copy(target, (memoryview(grh), memoryview(packet)))
    entry = _entry(
        hca.cqes.ticks, rq, headers, to, (flags | origin.qpn, qp.handle, length, wqe.index)
    )
    assert rq.cq is not None  # InfiniBand has no hairpins
    completions.report(hca.cqes, rq.cq, rq, entry, _OP_OWN, False)


def _entry(
    ticks: FreeRunningTimer,
    rq: Rq,
    headers: Headers,
    to: Delivery,
    values: tuple[int, int, int, int],
) -> bytes:
    """Return a CQE; ``values`` are flags_rqpn, the underlay's QPN, byte_cnt and wqe_counter."""
    flags_rqpn, qpn, byte_cnt, wqe_counter = values
    check_sum, l3_ok, l4_ok = verify(headers)
    checked = (_ALL_OK if l4_ok else _L3_OK) if l3_ok else 0
    now = completions.now_for(ticks, rq)
    return ETH_CQE.pack(
        0, to.rss_hash_result, to.rss_hash_type, 0, check_sum, flags_rqpn, checked,
        kind_of(headers), 0, rq.uidx or 0, 0, byte_cnt, now >> 32 & _WORD, now & _WORD, qpn,
        wqe_counter,
    )  # fmt: skip


def transmit(hca: Hca, sq: Sq, wqe: Wqe) -> None:
    """Send the datagrams of a SEND or LSO WQE; drop them uncounted unless the underlay is in RTS.

    Raises FrameLengthError for a datagram longer than the MTU, BadWqeError or AccessError for the
    WQE; no datagram has been sent then.
    """
    assert sq.tis is not None
    qp = sq.tis.underlay
    assert qp is not None
    to, at = read_av(hca.link, wqe)
    made = (requests.large if wqe.opcode == _LSO else requests.one)(hca, sq, wqe, to, at)
    if made.length > hca.link.max_payload:
        raise FrameLengthError(f"{made.length} bytes exceed the {hca.link.max_payload} of a packet")
    datagrams = (made,) if isinstance(made, Datagram) else made.datagrams
    hca.budget.charge(STEPS_PER_FRAME * len(datagrams))
    if qp.state is not _RTS:
        return
    origin = ud.origin_of(hca.link, qp, to)
    for datagram in datagrams:
        if sq.pacing is not None:
            sq.pacing.charge(datagram.octets, hca.clock.now_ns())
        delivery.send(hca, datagram, origin)
