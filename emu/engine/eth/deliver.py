"""A packet at its receive queue: the request that it fills, and the completion that describes it.

Source: PRM "Completion queue entry"; core/en_rx.c: mlx5e_handle_rx_cqe, mlx5e_build_rx_skb,
mlx5e_handle_csum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.engine.eth import queues
from emu.engine.eth.steering.route import Delivery
from emu.engine.events import cq as cq_engine
from emu.engine.mr.access import access
from emu.engine.mr.rights import LOCAL_WRITE, AccessError
from emu.engine.qp.lifecycle import check_srq_limit
from emu.objects import ANY_QPN
from emu.objects.receive_queue import ListBrokenError, RecvWqe
from emu.objects.views import copy
from emu.port.eth.checksum import trusted, verify
from emu.port.eth.headers import Headers, parse
from emu.port.eth.vlan import strip_tag
from emu.ports import DmaError
from layouts.enums import CqeOpcode
from layouts.eth_cqe import ETH_CQE
from layouts.eth_enums import CqeChecked, CqeHeader, RqState
from layouts.eth_wqe import START_PADDING

if TYPE_CHECKING:
    from emu.device.hca import Hca

SEGMENT_2GIB = 1 << 31
"""What byte_count 0 means (PRM "Data segment")."""

_RDY = RqState.RDY
_OP_OWN = CqeOpcode.RESP_SEND << 4
_LENGTH = START_PADDING - 1
_WORD = 0xFFFFFFFF
_L2_OK, _L3_OK, _L4_OK = int(CqeChecked.L2), int(CqeChecked.L3), int(CqeChecked.L4)
_STRIPPED = int(CqeHeader.VLAN_STRIPPED)
_L3_TYPE = {0: 0, 4: int(CqeHeader.IPV4), 6: int(CqeHeader.IPV6)}
_CONGESTED = 3
"""Both bits of explicit congestion notification (RFC 3168 5)."""
_ECN_CE = 1 << 7
"""ml_path: the IP header says that the way was congested."""


class Form:
    """A packet as it is put into memory, and what a completion says of these bytes."""

    __slots__ = ("check_sum", "checked", "data", "ecn", "header_type", "tci")

    def __init__(self, headers: Headers, is_vouched: bool, tci: int | None = None) -> None:
        """``tci`` is the tag that has been taken off; ``headers`` are those without it."""
        sums = trusted(headers) if is_vouched else verify(headers)
        self.data = headers.frame
        self.check_sum = sums.check_sum
        self.checked = _L2_OK
        if sums.l3_ok:
            self.checked |= _L3_OK | _L4_OK if sums.l4_ok else _L3_OK
        self.header_type = _L3_TYPE[headers.version]
        self.tci = 0
        if tci is not None:
            self.header_type |= _STRIPPED
            self.tci = tci
        self.ecn = _ECN_CE if _is_congested(headers) else 0


class Received:
    """A packet on its way to receive queues, with its VLAN tag and without."""

    __slots__ = ("_headers", "_is_vouched", "_stripped", "_whole")

    def __init__(self, headers: Headers, is_vouched: bool) -> None:
        """``is_vouched``: its transport checksum is right, so nobody needs to compute it."""
        self._headers = headers
        self._is_vouched = is_vouched
        self._whole: Form | None = None
        self._stripped: Form | None = None

    def form(self, strips: bool) -> Form:
        """How it is put into memory, without its outermost VLAN tag if ``strips``."""
        if strips:
            if self._stripped is None:
                without = strip_tag(self._headers.frame)
                if without is None:
                    self._stripped = self.form(False)
                else:
                    data, tci = without
                    self._stripped = Form(parse(data), self._is_vouched, tci)
            return self._stripped
        if self._whole is None:
            self._whole = Form(self._headers, self._is_vouched)
        return self._whole


def deliver(hca: Hca, packet: Received, to: Delivery) -> None:
    """Fill the queue's next request with a packet, or count why it cannot be."""
    rq = to.rq
    if rq.state is not _RDY:
        return
    try:
        wqe = rq.queue.take()
    except (DmaError, ListBrokenError) as error:
        queues.break_rq(hca, rq, error)
        return
    if wqe is None:
        rq.count("out_of_buffer")
        return
    form = packet.form(rq.strips)
    data = form.data
    try:
        target = _room(hca, wqe, len(data))
    except AccessError as error:
        queues.fail_receive(hca, rq, wqe.index, str(error))
        return
    if target is None:
        rq.queue.give_back(wqe)
        hca.eth.vport.wqe_too_small += 1
        return
    copy(target, (memoryview(data),))
    if rq.rmp is not None:
        check_srq_limit(hca, rq.rmp.handle)
    now = hca.clock.now_ns()
    entry = ETH_CQE.pack(
        to.rss_hash_result, to.rss_hash_type, form.ecn, form.check_sum, 0, form.checked,
        form.header_type, form.tci, rq.uidx or 0, len(data), now >> 32 & _WORD, now & _WORD,
        to.flow_tag, wqe.index,
    )  # fmt: skip
    cq_engine.report(hca, rq.cq, rq, entry, _OP_OWN, False)


def _room(hca: Hca, wqe: RecvWqe, length: int) -> list[memoryview] | None:
    """The first ``length`` bytes of the scatter list; None when it is shorter."""
    views: list[memoryview] = []
    for byte_count, lkey, address in wqe.segments:
        room = byte_count & _LENGTH or SEGMENT_2GIB
        size = room if room < length else length
        views += access(hca, wqe.pd, ANY_QPN, lkey, (address, size, LOCAL_WRITE))
        length -= size
        if not length:
            return views
    return None


def _is_congested(headers: Headers) -> bool:
    """Whether a router has marked the packet on its way."""
    if headers.version == 4:
        return headers.frame[headers.l3 + 1] & _CONGESTED == _CONGESTED
    return headers.version == 6 and headers.frame[headers.l3 + 1] >> 4 & _CONGESTED == _CONGESTED
