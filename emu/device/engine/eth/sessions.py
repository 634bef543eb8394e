"""Merging sessions: hold packets of a TCP stream that arrive one by one until they are merged.

A receive queue with LRO or data merging gets a stream's packets together. A session ends at a
packet that does not belong to it, at PSH, at FIN, at a shorter payload, or when it is full. The TIR
or the queue limits its duration (lro_timeout_period_usecs, reservation_timeout). With LRO the
packets become one. A queue that splits headers gets them one after another, and the driver merges
them. Packets of one stream never overtake each other; a packet that is not TCP overtakes none.

Source: PRM "Large receive offload", "SHAMPO"; core/en/tir.c: mlx5e_tir_builder_build_packet_merge;
core/en/params.c: mlx5e_build_rq_param.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.deliver import deliver
from emu.device.engine.eth.header_split import can_match
from emu.device.engine.eth.merging.flows import (
    FIN,
    FLAGS_AT,
    IP_BYTES,
    PSH,
    continued,
    flow_of,
    header_of,
)
from emu.device.engine.eth.merging.lro import MAX_BYTES, MAX_SEGMENTS, as_one, expect, longer
from emu.device.engine.eth.steering.route import Delivery
from emu.device.objects.eth.reservations import Flow
from emu.device.objects.eth.rq import Rq
from emu.device.port.eth.checksum import trusted, verify
from emu.device.port.eth.headers import TCP, Headers
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, STEPS_PER_HELD
from layouts.enums.wq import RqState

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.sessions import Key

_RDY: Final = RqState.RDY


class Session:
    """Held packets of one stream, in order, and their common delivery."""

    __slots__ = ("due_ns", "flow", "header", "key", "octets", "packets", "to")

    def __init__(self, key: Key, to: Delivery, header: int, due_ns: int) -> None:
        """Open an empty session; each packet has ``header`` bytes before its payload."""
        self.key, self.to, self.header, self.due_ns = key, to, header, due_ns
        self.packets: list[Headers] = []
        self.flow: Flow | None = None
        """The last packet's flow state."""
        self.octets = 0
        """Payload bytes held."""


def take(hca: Hca, headers: Headers, is_vouched: bool, to: Delivery) -> None:
    """Deliver a packet to a queue that may merge it with others, now or later.

    ``is_vouched``: the transport checksum is known to be right. A packet that cannot be merged is
    delivered at once, behind the held packets of its stream. A packet that is not TCP is delivered
    behind all held packets of the queue.
    """
    timeout_ns = _timeout_ns(headers, to)
    if headers.protocol != TCP or not headers.l4:
        flush_all_of(hca, to.rq)
        deliver(hca, headers, is_vouched, to)
        return
    key, header = _key(to.rq, headers), header_of(headers)
    flow = None
    if timeout_ns and _has_payload(headers, header, to):
        sums = trusted(headers) if is_vouched else verify(headers)
        if sums.l3_ok and sums.l4_ok:
            flow = flow_of(headers, header)
    flags = headers.frame[headers.l4 + FLAGS_AT]
    if flow is None or (flags & FIN and to.rq.reservations is None):
        _flush_key(hca, key)
        deliver(hca, headers, is_vouched, to)
        return
    _join(hca, key, headers, flow, to, timeout_ns)


def _join(hca: Hca, key: Key, headers: Headers, flow: Flow, to: Delivery, timeout_ns: int) -> None:
    """Hold a packet in its stream's session; deliver the session if the packet ends it.

    A packet that does not continue the session ends the old one and opens a new one. Beyond the
    limit of held packets the oldest session is delivered.
    """
    hca.budget.charge(STEPS_PER_HELD)
    sessions, header = hca.sessions, header_of(headers)
    session: Session | None = sessions.open.get(key)
    joined = None
    if session is not None:
        if session.to == to and _has_space(session, headers, flow):
            joined = continued(session.flow, flow)
        if joined is None:
            deliver_session(hca, session)
    is_last = bool(headers.frame[headers.l4 + FLAGS_AT] & (PSH | FIN))
    if joined is None:
        if is_last:
            deliver(hca, headers, True, to)
            return
        joined = flow
        session = Session(key, to, header, hca.clock.now_ns() + timeout_ns)
        sessions.open[key] = session
        if to.merging is not None and to.rq.reservations is None:
            expect(to.rq, header, to.merging)
        _wake_at(hca, session.due_ns)
    assert session is not None
    session.packets.append(headers)
    session.flow = joined
    session.octets += flow.size
    sessions.packet_count += 1
    to.rq.session_packets += 1
    if is_last or flow.size < joined.size:
        deliver_session(hca, session)
    elif sessions.are_too_many:
        deliver_session(hca, next(iter(sessions.open.values())))


def _timeout_ns(headers: Headers, to: Delivery) -> int:
    """Return the nanoseconds for which a packet may be held; 0 if it may not be held.

    A packet that steering changes, or whose FCS is delivered, is never held.
    """
    rq, merging, reservations = to.rq, to.merging, to.rq.reservations
    if to.steps is not None or type(headers) is not Headers:
        return 0
    if rq.scatters_fcs or rq.state is not _RDY:
        return 0
    if reservations is not None:
        return reservations.timeout_ns if reservations.merges else 0
    if merging is None or rq.strides is None or headers.version not in merging.versions:
        return 0
    return merging.timeout_ns


def _key(rq: Rq, headers: Headers) -> Key:
    return rq.handle, headers.addresses + headers.ports


def _has_payload(headers: Headers, header: int, to: Delivery) -> bool:
    """Return whether a packet has a payload that may be merged."""
    if to.rq.reservations is not None:
        return can_match(headers, header)
    return header < headers.end


def _has_space(session: Session, headers: Headers, flow: Flow) -> bool:
    """Return whether a session may take one more packet: its number and bytes are limited.

    The limits are those of a reservation with header split, of LRO otherwise.
    """
    count, octets = len(session.packets) + 1, session.octets + flow.size
    rq, merging = session.to.rq, session.to.merging
    if rq.reservations is not None:
        return count <= rq.reservations.limit and octets <= rq.reservations.size
    assert merging is not None  # only such packets are held
    assert rq.strides is not None
    front = session.header - headers.l3 - IP_BYTES[headers.version]
    return (
        count <= MAX_SEGMENTS
        and front + octets <= merging.most_ip_payload
        and session.header + octets <= min(rq.strides.most_bytes, MAX_BYTES)
    )


def flush_stream(hca: Hca, rq: Rq, headers: Headers) -> None:
    """Deliver the held packets of a stream, before another of its packets is delivered alone."""
    if hca.sessions.open:
        _flush_key(hca, _key(rq, headers))


def flush_all_of(hca: Hca, rq: Rq) -> None:
    """Deliver the held packets of all sessions of a queue."""
    if hca.sessions.open:
        for session in [s for s in hca.sessions.open.values() if s.to.rq is rq]:
            deliver_session(hca, session)


def flush_all(hca: Hca) -> None:
    """Deliver the held packets of all sessions, before a change of their conditions."""
    while hca.sessions.open:
        deliver_session(hca, next(iter(hca.sessions.open.values())))


def _flush_key(hca: Hca, key: Key) -> None:
    session = hca.sessions.open.get(key)
    if session is not None:
        deliver_session(hca, session)


def deliver_session(hca: Hca, session: Session) -> None:
    """Close a session and deliver its packets: merged into one, or one by one with header split.

    A queue that has left RDY drops them uncounted.
    """
    sessions, to, packets = hca.sessions, session.to, session.packets
    del sessions.open[session.key]
    sessions.packet_count -= len(packets)
    to.rq.session_packets -= len(packets)
    reservations = to.rq.reservations
    if len(packets) == 1 or reservations is not None:
        for packet in packets:
            deliver(hca, packet, True, to)
        if reservations is not None:
            reservations.flow = None  # later packets do not match
        return
    first, last, header = packets[0], packets[-1], session.header
    segments = [first.frame[: first.end], *(one.frame[header : one.end] for one in packets[1:])]
    has_psh = bool(last.frame[last.l4 + FLAGS_AT] & PSH)
    whole = as_one(longer(first, b"".join(segments)), header, len(packets), has_psh=has_psh)
    hca.budget.charge(len(packets) + (session.octets >> LOG_BYTES_PER_STEP))
    deliver(hca, whole.headers, True, to, whole)


def _wake_at(hca: Hca, due_ns: int) -> None:
    """Have expired sessions delivered at ``due_ns`` or earlier, by one timer for the function."""
    sessions = hca.sessions
    if sessions.timer is not None:
        if sessions.due_ns <= due_ns:
            return
        sessions.timer.cancel()
    sessions.due_ns = due_ns
    delay_ns = max(due_ns - hca.clock.now_ns(), 0)
    sessions.timer = hca.clock.call_later(delay_ns, partial(_flush_expired, hca))


def _flush_expired(hca: Hca) -> None:
    """Deliver the expired sessions, within the round's budget; set the timer for the rest."""
    sessions, now_ns = hca.sessions, hca.clock.now_ns()
    sessions.timer = None
    for session in list(sessions.open.values()):
        if session.due_ns <= now_ns:
            if hca.budget.exhausted(POLL_BUDGET):
                break
            deliver_session(hca, session)
    if sessions.open:
        _wake_at(hca, min(session.due_ns for session in sessions.open.values()))
