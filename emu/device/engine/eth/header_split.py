"""Header split and merging of data (SHAMPO): headers go to a buffer of their own, data behind each
other.

Of a packet that has been split, the driver makes its own from the header's entry, and adds the data
of those that match the one before (core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq_shampo). A match is a
packet of the same TCP stream that follows without a gap, with the same headers but for what the
driver corrects: it keeps those of the first. Packets that are no TCP or UDP stay whole.

Source: PRM "SHAMPO"; device.h: mlx5_cqe64.shampo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth import queues
from emu.device.engine.eth.merging.flows import FIN, FLAGS_AT, PSH, continued, flow_of, header_of
from emu.device.engine.eth.requests import RECEIVE_POINT, Placed, request, target_of
from emu.device.engine.eth.striding import STRIDES_SHIFT, fill
from emu.device.engine.mr.access import access
from emu.device.engine.mr.rights import LOCAL_WRITE, AccessError
from emu.device.objects.eth.reservations import Flow, Reservations
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.strides import Strides
from emu.device.objects.memory.mkey import ANY_QPN
from emu.device.objects.memory.views import Views, copy
from emu.device.objects.queues.receive_queue import RecvWqe
from emu.device.port.eth.headers import TCP, UDP, Headers
from layouts.rings.eth_cqe import SHAMPO, SHAMPO_FLUSH, SHAMPO_MATCH

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_UDP_BYTES: Final = 8
_MIN_BYTES: Final = 60 + 2 * 4
"""Up to this a frame may have padding, also with two VLAN tags: it is never merged."""
_MAX_HEADER: Final = 0xFF
"""header_size has 8 bits."""


class Split(NamedTuple):
    """A packet, seen as header and data."""

    header: int
    """Bytes; 0 if it stays whole."""
    data: int
    """Bytes behind the header, padding included."""
    flow: Flow | None
    """Which packet may follow it, if it is one that may be followed, or that follows."""
    ends: bool
    """It is the last one of those that belong together."""


def can_match(headers: Headers, header: int) -> bool:
    """Whether the driver would add a packet's data to others: they are a payload and nothing else.

    It takes short frames for padded ones.
    """
    return header < headers.end == len(headers.frame) > _MIN_BYTES


def split(headers: Headers, reservations: Reservations, *, is_good: bool) -> Split:
    """Cut a packet in two. ``is_good``: its checksums are right."""
    data, at = headers.frame, headers.l4
    length = len(data)
    header = 0
    if at and headers.protocol == TCP:
        header = header_of(headers)
    elif at and headers.protocol == UDP:
        header = at + _UDP_BYTES
    if headers.end <= header:
        header = length
    if not at or header > min(reservations.entry_bytes, _MAX_HEADER):
        return Split(0, length, None, ends=True)
    flow = None
    if is_good and reservations.merges and can_match(headers, header):
        flow = flow_of(headers, header)
    flags = data[at + FLAGS_AT] if flow is not None else PSH
    return Split(header, length - header, flow, ends=bool(flags & (PSH | FIN)))


def put(hca: Hca, rq: Rq, at: Reservations, headers: Headers, *, is_good: bool) -> Placed | None:
    """Write a packet into the queue's memory; None when it is dropped, which is counted."""
    strides = rq.strides
    assert strides is not None  # or there were no reservations
    parts = split(headers, at, is_good=is_good)
    if parts.data > at.size:
        hca.nic_vport.wqe_too_small += 1
        return None
    joined = continued(at.flow, parts.flow) if strides.wqe is not None else None
    start = at.place(parts.data, follows=joined is not None) if strides.wqe is not None else None
    if start is None:
        if not _next(hca, rq, at, strides):
            return None
        start, joined = at.position, None
    wqe = strides.wqe
    assert wqe is not None
    if not _write(hca, rq, at, wqe, headers.frame, start, parts):
        return None
    flow = joined if joined is not None else parts.flow
    ends = parts.ends or (flow is not None and parts.flow is not None and parts.data < flow.size)
    flags = (SHAMPO_MATCH if joined is not None else 0) | (SHAMPO_FLUSH if ends else 0)
    words = SHAMPO.pack(parts.header, at.index if parts.header else 0, start if parts.data else 0)
    if parts.header:
        at.index = (at.index + 1) % at.entries
    first, count = at.take(start, parts.data)
    at.flow = None if ends else flow
    byte_cnt = count << STRIDES_SHIFT | len(headers.frame)
    return wqe.index, first, byte_cnt, bytes((flags,)) + words[1:]


def _next(hca: Hca, rq: Rq, at: Reservations, strides: Strides) -> bool:
    """Go to the next reservation; False when there is no request for it, which is counted."""
    if strides.wqe is not None and not at.is_last:
        fill(hca, rq, strides, at.end)
        at.leave()
        return True
    following = request(hca, rq)
    if following is None:
        return False
    fill(hca, rq, strides)
    strides.begin(following)
    at.begin()
    return True


def _write(
    hca: Hca, rq: Rq, at: Reservations, wqe: RecvWqe, data: bytes, start: int, parts: Split
) -> bool:
    """Copy header and data to their places; False when the packet is dropped."""
    head: Views = ()
    if parts.header:
        span = at.index * at.entry_bytes, parts.header, LOCAL_WRITE
        try:
            head = access(hca, rq.pd, ANY_QPN, at.headers_key, span)
        except AccessError as error:
            queues.fail_receive(hca, rq, wqe.index, str(error), error.cause)
            return False
    body = target_of(hca, rq, wqe, start, parts.data) if parts.data else ()
    if body is None:
        return False
    if hca.faults is not None and not hca.faults.show(RECEIVE_POINT, rq, wqe, len(data)):
        return False
    source = memoryview(data)
    copy(head, (source[: parts.header],))
    copy(body, (source[parts.header :],))
    return True
