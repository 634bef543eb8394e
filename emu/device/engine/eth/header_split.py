"""Header split and data merging (SHAMPO): headers and data go to separate buffers.

The driver builds a packet from its header entry, and appends the data of the packets that match it
(core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq_shampo). A matching packet follows in the same TCP stream
without a gap. Its headers are equal except for fields that the driver corrects; the driver keeps
the first packet's headers. Packets other than TCP and UDP are not split.

Source: PRM "SHAMPO"; device.h: mlx5_cqe64.shampo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth import queues
from emu.device.engine.eth.merging.flows import FIN, FLAGS_AT, PSH, continued, flow_of, header_of
from emu.device.engine.eth.requests import RECEIVE_POINT, Placed, request, target_of
from emu.device.engine.eth.striding import STRIDES_SHIFT, fill
from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import AccessError
from emu.device.objects.eth.reservations import Flow, Reservations
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.strides import Strides
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import Views, copy
from emu.device.objects.queues.receive_queue import RecvWqe
from emu.device.port.eth.headers import TCP, UDP, Headers
from layouts.rings.eth_cqe import SHAMPO, SHAMPO_FLUSH, SHAMPO_MATCH

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_UDP_BYTES: Final = 8
_MIN_BYTES: Final = 60 + 2 * 4
"""Frames up to this length may have padding, two VLAN tags included: they are never merged."""
_MAX_HEADER: Final = 0xFF
"""header_size has 8 bits."""


class Split(NamedTuple):
    """Lengths of a packet's header and data."""

    header: int
    """Bytes; 0 if the packet is not split."""
    data: int
    """Bytes behind the header, padding included."""
    flow: Flow | None
    """The flow state that the next packet must continue; None if the packet cannot be merged."""
    ends: bool
    """Whether no later packet may be merged with this one."""


def can_match(headers: Headers, header: int) -> bool:
    """Return whether a packet may be merged: payload follows its header, and no padding.

    Frames of up to 68 bytes may have padding, so they count as short.
    """
    return header < headers.end == len(headers.frame) > _MIN_BYTES


def split(headers: Headers, reservations: Reservations, *, is_good: bool) -> Split:
    """Return where a packet is split; ``is_good``: its checksums are right.

    TCP is split behind its options, UDP behind its header. Other packets, and headers longer than a
    header entry, are not split: header 0. A packet without payload has all bytes in its header.
    ``flow`` is None unless the queue merges data and the packet may be merged.
    """
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
    """Write a packet's header and data to the queue's buffers; return location and SHAMPO fields.

    Return None if the packet is dropped: wqe_too_small for data longer than a reservation,
    out_of_buffer without a WQE, uncounted by a fault plan. A bad memory key moves the queue to ERR.
    A packet that continues the stream of the last one is marked as a match.
    """
    strides = rq.strides
    assert strides is not None  # or there were no reservations
    cut = split(headers, at, is_good=is_good)
    if cut.data > at.size:
        hca.nic_vport.wqe_too_small += 1
        return None
    joined = continued(at.flow, cut.flow) if strides.wqe is not None else None
    start = at.place(cut.data, follows=joined is not None) if strides.wqe is not None else None
    if start is None:
        if not _next(hca, rq, at, strides):
            return None
        start, joined = at.position, None
    wqe = strides.wqe
    assert wqe is not None
    if not _write(hca, rq, at, wqe, headers.frame, start, cut):
        return None
    flow = joined if joined is not None else cut.flow
    ends = cut.ends or (flow is not None and cut.flow is not None and cut.data < flow.size)
    flags = (SHAMPO_MATCH if joined is not None else 0) | (SHAMPO_FLUSH if ends else 0)
    words = SHAMPO.pack(cut.header, at.index if cut.header else 0, start if cut.data else 0)
    if cut.header:
        at.index = (at.index + 1) % at.entries
    first, count = at.take(start, cut.data)
    at.flow = None if ends else flow
    byte_cnt = count << STRIDES_SHIFT | len(headers.frame)
    return wqe.index, first, byte_cnt, bytes((flags,)) + words[1:]


def _next(hca: Hca, rq: Rq, at: Reservations, strides: Strides) -> bool:
    """Advance to the next reservation; return False if no WQE is posted for it (out_of_buffer).

    Write a filler CQE for the strides of the old reservation that stay empty.
    """
    if strides.wqe is not None and not at.is_last:
        fill(hca.cqes, rq, strides, at.end)
        at.leave()
        return True
    following = request(hca, rq)
    if following is None:
        return False
    fill(hca.cqes, rq, strides)
    strides.begin(following)
    at.begin()
    return True


def _write(
    hca: Hca, rq: Rq, at: Reservations, wqe: RecvWqe, data: bytes, start: int, cut: Split
) -> bool:
    """Copy header and data to their buffers; return False when the packet is dropped.

    A bad key of the header buffer or of the WQE completes the WQE in error and moves the queue to
    ERR.
    """
    head: Views = ()
    if cut.header:
        span = at.index * at.entry_bytes, cut.header, LOCAL_WRITE
        try:
            head = access(hca, rq.pd, ANY_QPN, at.headers_key, span)
        except AccessError as error:
            queues.fail_receive(hca, rq, wqe.index, str(error), error.cause)
            return False
    body = target_of(hca, rq, wqe, start, cut.data) if cut.data else ()
    if body is None:
        return False
    if hca.probes.faults is not None and not hca.probes.faults.show(
        RECEIVE_POINT, rq, wqe, len(data)
    ):
        return False
    source = memoryview(data)
    copy(head, (source[: cut.header],))
    copy(body, (source[cut.header :],))
    return True
