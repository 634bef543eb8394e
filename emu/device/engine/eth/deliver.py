"""Delivery of a packet to its receive queue: fills a receive WQE and writes the CQE.

Source: PRM "Completion queue entry"; core/en_rx.c: mlx5e_handle_rx_cqe, mlx5e_build_rx_skb,
mlx5e_handle_csum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.hairpin.receive import pass_one
from emu.device.engine.eth.header_split import put
from emu.device.engine.eth.merging.lro import Merged
from emu.device.engine.eth.requests import RECEIVE_POINT, Placed, request, target_of
from emu.device.engine.eth.steering.rewrite import cost_of, rewrite
from emu.device.engine.eth.steering.route import Delivery
from emu.device.engine.eth.striding import STRIDES_SHIFT, request_for
from emu.device.engine.eth.tunnels.header_kind import kind_of
from emu.device.engine.eth.tunnels.received import TUNNEL_PROTOCOLS, about_inner
from emu.device.engine.events import completions
from emu.device.engine.qp.events import check_srq_limit
from emu.device.objects.eth.rq import Rq
from emu.device.objects.memory.views import copy
from emu.device.port.eth.checksum import trusted, verify
from emu.device.port.eth.fcs import with_fcs
from emu.device.port.eth.headers import ETHERNET_BYTES, FrameError, Headers, despite_length, parse
from emu.device.port.eth.vlan import strip_tag
from emu.device.rounds.costs import STEPS_PER_DELIVERY
from layouts.enums.cqe import CqeChecked, CqeHeader, CqeOpcode
from layouts.enums.modify_header import ModifyField
from layouts.enums.wq import RqState
from layouts.rings.eth_cqe import ETH_CQE, SHAMPO, SHAMPO_AT

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_RDY: Final = RqState.RDY
_REG_B: Final = ModifyField.METADATA_REG_B
_OP_OWN: Final = CqeOpcode.RESP_SEND << 4
_WORD: Final = 0xFFFFFFFF
_SHAMPO_END: Final = SHAMPO_AT + SHAMPO.size
_pack: Final = ETH_CQE.pack
_L2_OK: Final = int(CqeChecked.L2)
_L3_OK: Final = int(CqeChecked.L2 | CqeChecked.L3)
_ALL_OK: Final = int(CqeChecked.L2 | CqeChecked.L3 | CqeChecked.L4)
_STRIPPED: Final = int(CqeHeader.VLAN_STRIPPED)
_CONGESTED: Final = 3
"""Both bits of explicit congestion notification (RFC 3168 5)."""
_ECN_CE: Final = 1 << 7
"""ml_path: the IP header has the congestion-experienced mark."""


def deliver(
    hca: Hca, headers: Headers, is_vouched: bool, to: Delivery, merged: Merged | None = None
) -> None:
    """Fill the queue's next receive WQE with a packet and post its CQE, or drop the packet.

    ``is_vouched``: the transport checksum is known to be right and need not be computed.
    ``merged``: the packet stands for several. A hairpin queues the packet for its send queue
    instead.
    A drop is counted by its reason: out_of_buffer, too small a WQE, discards. A queue outside RDY,
    or an impossible change of the packet, drops it uncounted. A bad memory key moves the queue to
    ERR.
    """
    hca.budget.charge(STEPS_PER_DELIVERY)
    rq, rss_hash_result, rss_hash_type, flow_tag, steps, _, describes_inner = to
    if rq.state is not _RDY:
        return
    header_type = tci = metadata = 0
    if rq.scatters_fcs:
        headers = with_fcs(headers)
    if steps is not None:
        hca.budget.charge(cost_of(steps, len(headers.frame)))
        try:
            steered = despite_length(headers)
            changed = rewrite(steered, steps)
        except FrameError:  # a super-frame's last packet may be too short for the change
            return
        metadata = changed.registers.get(_REG_B, 0)
        # The CQE of an IP packet that is longer than its frame describes no IP packet.
        is_whole = steered is headers or steps.reshapes
        headers = changed if is_whole else parse(changed.frame)
        # The sender guarantees the outer packet's checksum only.
        is_vouched = is_vouched and not steps.reshapes
    if rq.strips and headers.l3 != ETHERNET_BYTES:
        without = strip_tag(headers.frame)
        if without is not None:
            data, tci = without
            headers, header_type = parse(data), _STRIPPED
    cq = rq.cq
    if cq is None:
        if rq.hairpin is not None:
            pass_one(
                hca.vhca, rq, rq.hairpin, headers.frame, is_vouched=is_vouched, metadata=metadata
            )
        return
    if rq.reservations is None:
        placed = _write(hca, rq, headers.frame)
        if placed is None:
            return
        check_sum, l3_ok, l4_ok = _sums(headers, is_vouched, merged)
    else:
        check_sum, l3_ok, l4_ok = _sums(headers, is_vouched, merged)
        placed = put(hca, rq, rq.reservations, headers, is_good=l3_ok and l4_ok)
        if placed is None:
            return
    checked = _L2_OK
    if l3_ok:
        checked = _ALL_OK if l4_ok else _L3_OK
    version, ecn, data = headers.version, 0, headers.frame
    if version:
        marks = data[headers.l3 + 1] if version == 4 else data[headers.l3 + 1] >> 4
        if marks & _CONGESTED == _CONGESTED:
            ecn = _ECN_CE
    cqes = hca.cqes
    now = cqes.ticks.real_stamp() if rq.has_real_time else cqes.ticks.read()
    wqe_id, counter, byte_cnt, apart = placed
    entry = _pack(
        wqe_id, rss_hash_result, rss_hash_type, ecn, check_sum, 0, checked,
        header_type | kind_of(headers), tci, rq.uidx or 0, metadata, byte_cnt, now >> 32 & _WORD,
        now & _WORD, flow_tag, counter,
    )  # fmt: skip
    if merged is not None:
        entry = merged.fill(entry)
    elif apart:
        entry = entry[:SHAMPO_AT] + apart + entry[_SHAMPO_END:]
    elif describes_inner and headers.protocol in TUNNEL_PROTOCOLS:
        entry = about_inner(hca.parser, headers, l3_ok, l4_ok, entry)
    completions.report(cqes, cq, rq, entry, _OP_OWN, False)


def _sums(headers: Headers, is_vouched: bool, merged: Merged | None) -> tuple[int, bool, bool]:
    """Return cqe64.check_sum, and whether the network and the transport checksum are right.

    A merged packet's are always right. Checksums are computed only where nobody vouches for them.
    """
    if merged is not None:
        return merged.check_sum, True, True
    if headers.sums is not None:
        return headers.sums
    return trusted(headers) if is_vouched else verify(headers)


def _write(hca: Hca, rq: Rq, data: bytes) -> Placed | None:
    """Write a packet into the queue's memory; return its location, None if it is dropped.

    Drops are counted as in ``requests``, except those of a fault plan. Take a WQE, or strides of
    the current one. An RMP below its limit raises its limit event.
    """
    length, strides = len(data), rq.strides
    if strides is None:
        wqe, offset = request(hca, rq), 0
    else:
        wqe, offset = request_for(hca, rq, strides, length), strides.offset
    if wqe is None:
        return None
    memory = target_of(hca, rq, wqe, offset, length)
    if memory is None:
        return None
    if hca.probes.faults is not None and not hca.probes.faults.show(RECEIVE_POINT, rq, wqe, length):
        return None
    if len(memory) == 1:
        memory[0][:] = data
    else:
        copy(memory, (memoryview(data),))
    if rq.rmp is not None:
        check_srq_limit(hca.events, rq.rmp)
    if strides is None:
        return 0, wqe.index, length, b""
    first, count = strides.take(length)
    return wqe.index, first, count << STRIDES_SHIFT | length, b""
