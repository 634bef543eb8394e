"""A packet at its receive queue: the request that it fills, and the completion that describes it.

Source: PRM "Completion queue entry"; core/en_rx.c: mlx5e_handle_rx_cqe, mlx5e_build_rx_skb,
mlx5e_handle_csum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth import queues
from emu.device.engine.eth.lro import Merged
from emu.device.engine.eth.steering.rewrite import rewrite
from emu.device.engine.eth.steering.route import Delivery
from emu.device.engine.eth.striding import STRIDES_SHIFT, request_for
from emu.device.engine.events import completions
from emu.device.engine.mr.access import walk
from emu.device.engine.mr.rights import IN_PIECES, LOCAL_WRITE, AccessError
from emu.device.engine.qp.events import check_srq_limit
from emu.device.objects.eth.rq import Rq
from emu.device.objects.memory.mkey import ANY_QPN
from emu.device.objects.memory.views import Views, copy
from emu.device.objects.queues.receive_queue import ListBrokenError, RecvWqe
from emu.device.port.eth.checksum import trusted, verify
from emu.device.port.eth.fcs import with_fcs
from emu.device.port.eth.headers import ETHERNET_BYTES, TCP, UDP, Headers, parse
from emu.device.port.eth.vlan import strip_tag
from emu.device.ports import DmaError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.rounds.costs import (
    LOG_CHANGES_PER_STEP,
    LOG_SEGMENTS_PER_STEP,
    STEPS_IN_VAIN,
    STEPS_PER_DELIVERY,
    STEPS_PER_REWRITE,
)
from emu.device.state.points import FaultPoint
from layouts.enums import CqeOpcode
from layouts.eth_enums import CqeChecked, CqeHeader, ModifyField, RqState
from layouts.rings.eth_cqe import ETH_CQE

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

RECEIVE_POINT: FaultPoint[[Rq, RecvWqe, int], bool] = FaultPoint("wqe.rx")
"""A request, and the bytes of the packet that is to fill it; whether it may."""


_RDY = RqState.RDY
_REG_B = ModifyField.METADATA_REG_B
_OP_OWN = CqeOpcode.RESP_SEND << 4
_WORD = 0xFFFFFFFF
_pack = ETH_CQE.pack
_L2_OK = int(CqeChecked.L2)
_L3_OK = int(CqeChecked.L2 | CqeChecked.L3)
_ALL_OK = int(CqeChecked.L2 | CqeChecked.L3 | CqeChecked.L4)
_STRIPPED = int(CqeHeader.VLAN_STRIPPED)
_L3_TYPE = {0: 0, 4: int(CqeHeader.IPV4), 6: int(CqeHeader.IPV6)}
_FRAGMENT, _UDP = int(CqeHeader.FRAGMENT), int(CqeHeader.UDP)
_TCP_NO_ACK = int(CqeHeader.TCP_NO_ACK)
_TCP_ACK_NO_DATA = int(CqeHeader.TCP_ACK_NO_DATA)
_TCP_ACK_AND_DATA = int(CqeHeader.TCP_ACK_AND_DATA)
_TCP_OFFSET_AT, _TCP_FLAGS_AT, _ACK = 12, 13, 1 << 4
_CONGESTED = 3
"""Both bits of explicit congestion notification (RFC 3168 5)."""
_ECN_CE = 1 << 7
"""ml_path: the IP header says that the way was congested."""


def deliver(
    hca: Hca, headers: Headers, is_vouched: bool, to: Delivery, merged: Merged | None = None
) -> None:
    """Fill the queue's next request with a packet, or count why it cannot be.

    ``is_vouched``: its transport checksum is right, so nobody needs to compute it. ``merged``: the
    packet stands for several. A packet is discarded when its request falls into too many pieces for
    one round.
    """
    hca.round.charge(STEPS_PER_DELIVERY)
    rq, rss_hash_result, rss_hash_type, flow_tag, rewrites, _ = to
    if rq.state is not _RDY:
        return
    header_type = tci = metadata = 0
    if rq.scatters_fcs:
        headers = with_fcs(headers)
    if rewrites:
        changed = rewrite(headers, rewrites)
        headers, metadata = changed, changed.registers.get(_REG_B, 0)
        changes = sum(len(context.changes) for context in rewrites)
        hca.round.charge(STEPS_PER_REWRITE + (changes >> LOG_CHANGES_PER_STEP))
    if rq.strips and headers.l3 != ETHERNET_BYTES:
        without = strip_tag(headers.frame)
        if without is not None:
            data, tci = without
            headers, header_type = parse(data), _STRIPPED
    data = headers.frame
    length = len(data)
    strides = rq.strides
    if strides is None:
        wqe, offset = request(hca, rq), 0
    else:
        wqe, offset = request_for(hca, rq, strides, length), strides.offset
    if wqe is None:
        return
    target = target_of(hca, rq, wqe, offset, length)
    if target is None:
        return
    if hca.faults is not None and not hca.faults.show(RECEIVE_POINT, rq, wqe, length):
        return
    if len(target) == 1:
        target[0][:] = data
    else:
        copy(target, (memoryview(data),))
    if rq.rmp is not None:
        check_srq_limit(hca, rq.rmp)
    if merged is None:
        check_sum, l3_ok, l4_ok = trusted(headers) if is_vouched else verify(headers)
    else:
        check_sum, l3_ok, l4_ok = merged.check_sum, True, True
    checked = _L2_OK
    if l3_ok:
        checked = _ALL_OK if l4_ok else _L3_OK
    version, ecn = headers.version, 0
    if version:
        marks = data[headers.l3 + 1] if version == 4 else data[headers.l3 + 1] >> 4
        if marks & _CONGESTED == _CONGESTED:
            ecn = _ECN_CE
    wqe_id, counter, byte_cnt = 0, wqe.index, length
    if strides is not None:
        wqe_id = wqe.index
        counter, count = strides.take(length)
        byte_cnt |= count << STRIDES_SHIFT
    now = hca.ticks()
    if rq.has_real_time:
        now = hca.adapter.real_time.stamp(hca.clock.now_ns())
    entry = _pack(
        wqe_id, rss_hash_result, rss_hash_type, ecn, check_sum, 0, checked,
        header_type | kind_of(headers), tci, rq.uidx or 0, metadata, byte_cnt, now >> 32 & _WORD,
        now & _WORD, flow_tag, counter,
    )  # fmt: skip
    if merged is not None:
        entry = merged.fill(entry)
    completions.report(hca, rq.cq, rq, entry, _OP_OWN, False)


def kind_of(headers: Headers) -> int:
    """cqe64.l4_l3_hdr_type without the VLAN bit; of the outer headers, as tunnels are not parsed.

    DPDK makes its packet types of it (mlx5_rxtx.c: mlx5_set_ptype_table).
    """
    kind = _L3_TYPE[headers.version]
    at = headers.l4
    if not at:
        return kind | _FRAGMENT if headers.fragment else kind
    if headers.protocol == UDP:
        return kind | _UDP
    if headers.protocol != TCP:
        return kind
    data = headers.frame
    if not data[at + _TCP_FLAGS_AT] & _ACK:
        return kind | _TCP_NO_ACK
    payload_at = at + (data[at + _TCP_OFFSET_AT] >> 4) * 4
    return kind | (_TCP_ACK_AND_DATA if headers.end > payload_at else _TCP_ACK_NO_DATA)


def request(hca: Hca, rq: Rq) -> RecvWqe | None:
    """The queue's next request; None when there is none, which is counted."""
    queue = rq.queue
    before = queue.read_ahead
    try:
        wqe = queue.take()
    except (DmaError, ListBrokenError) as error:
        queues.break_rq(hca, rq, error)
        return None
    if queue.read_ahead != before:
        hca.round.charge((queue.read_ahead - before >> LOG_SEGMENTS_PER_STEP) + 1)
    if wqe is None:
        rq.count("out_of_buffer")
    return wqe


def target_of(hca: Hca, rq: Rq, wqe: RecvWqe, offset: int, length: int) -> Views | None:
    """The memory of a packet's bytes; None when the packet is dropped or the request fails."""
    try:
        span, most = (offset, length, LOCAL_WRITE), hca.round.steps + STEPS_PER_ACCESS
        target, left = walk(hca, wqe.pd, ANY_QPN, wqe.segments, span, most)
    except AccessError as error:
        if error.violation is not IN_PIECES:
            queues.fail_receive(hca, rq, wqe.index, str(error))
            return None
        hca.round.charge(STEPS_IN_VAIN)
        hca.vport.count_discard()
    else:
        if not left:
            return target
        if rq.strides is not None:
            queues.fail_receive(hca, rq, wqe.index, "its memory is shorter than its strides")
            return None
        hca.vport.count_too_small()
    if rq.strides is None:
        rq.queue.give_back(wqe)
    return None
