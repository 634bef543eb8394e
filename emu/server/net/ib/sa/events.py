"""Event forwarding: ports subscribe with inform_info and receive Reports (IBTA vol. 1, 13.4.11).

A Report is retransmitted up to MAX_TRIES times, until its receiver responds.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Set
from typing import NamedTuple

from emu.device.port.datagram import Destination
from emu.device.port.ib.port import SM_LID
from emu.device.ports import Clock
from emu.server.net.ib.sa.query import CapacityUser, Query, SaError, check_capacity, of_a_host
from emu.server.net.ib.sa.worker import Job, Worker
from layouts.wire.mads import BASE_VERSION, Method, MgmtClass
from layouts.wire.sa import (
    CLASS_VERSION,
    DATA_BYTES,
    SaAttr,
    SaStatus,
    SmTrap,
    inform_info,
    inform_info_rec,
    notice,
    sa_mad,
)

log = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 256
MAX_SUBSCRIPTIONS_OF_A_PORT = MAX_SUBSCRIPTIONS // 4
MAX_REPORTS = 1024
MAX_REPORTS_OF_A_PORT = MAX_REPORTS // 4
MAX_NOTICES = 1024
_COST_OF_A_REPORT = 3
REPORT_TIMEOUT_NS = 2_000_000_000
MAX_TRIES = 4

_ALL_TRAPS = _ALL_TYPES = _ALL_LIDS = 0xFFFF
_ALL_PRODUCERS = 0xFFFFFF
_SUBNET_MANAGEMENT = 3
"""Notice type of the subnet manager's own traps."""
_CLASS_MANAGER = 4
"""Producer type of a class manager."""

Send = Callable[[bytes, Destination], None]


class _Subscriber(NamedTuple):
    """The receiver of Reports, and the port and host whose capacity they use."""

    to: Destination
    owner: CapacityUser


class Subscriptions:
    """The subscriptions, and the Reports sent for them."""

    def __init__(self, issuer_gid: bytes, send: Send, clock: Clock, worker: Worker) -> None:
        self._worker = worker
        self._notices = 0
        """Number of notices that have not been reported to every subscriber yet."""
        self._issuer_gid = issuer_gid
        self._send = send
        self._clock = clock
        self._subscriptions: dict[tuple[int, int, bytes], _Subscriber] = {}
        """Subscribers by LID, QP, and the inform_info without the fields that may differ between
        subscribing and unsubscribing."""
        self._reports: dict[int, _Subscriber] = {}
        """Receivers of Reports without a response so far, by transaction id."""
        self._unanswered: Counter[int] = Counter()
        """Number of these Reports by the receiver's LID."""
        self._unanswered_by: Counter[Hashable] = Counter()
        """Number of these Reports by the receiver's host."""
        self._next_tid = 1

    def __len__(self) -> int:
        return len(self._subscriptions)

    def change(self, query: Query[inform_info]) -> list[inform_info]:
        """Subscribe or unsubscribe, and return the confirmed record: SubnAdmSet(inform_info).

        A repeated subscription counts once. Raises SaError: REQ_INVALID for an unknown
        subscription, NO_RESOURCES by ``check_capacity``.
        """
        info = query.requested.copy()
        subscribes, info.subscribe, info.qpn = info.subscribe, 0, 0
        subscriber = query.back
        key, owner = (subscriber.lid, subscriber.qpn, bytes(info)), query.owner
        if not subscribes:
            if self._subscriptions.pop(key, None) is None:
                raise SaError(SaStatus.REQ_INVALID, "no such subscription")
        else:
            if key not in self._subscriptions:
                check_capacity(
                    [one.owner for one in self._subscriptions.values()], owner,
                    MAX_SUBSCRIPTIONS, MAX_SUBSCRIPTIONS_OF_A_PORT, "subscriptions",
                )  # fmt: skip
            self._subscriptions[key] = _Subscriber(subscriber, owner)
        log.info("LID %#x subscribes=%d to trap %d", subscriber.lid, subscribes, info.trap_num)
        info.subscribe, info.qpn = subscribes, subscriber.qpn
        return [info]

    def records(self, query: Query[inform_info_rec]) -> Iterator[inform_info_rec | None]:
        """Yield the requester's matching subscriptions, or all if trusted; None between records.

        Serves SubnAdmGet and SubnAdmGetTable of InformInfoRecord.
        """
        for number, (lid, qpn, data) in enumerate(list(self._subscriptions)):
            yield None
            port = query.subnet.by_lid.get(lid)
            if port is None or not (query.is_trusted or lid == query.requester.lid):
                continue
            record = inform_info_rec.new(
                subscriber_gid=port.gid, subscriber_enum=number, inform_info=data
            )
            record.inform_info.subscribe, record.inform_info.qpn = 1, qpn
            yield record if query.selects(record) else None

    def notify(self, trap: SmTrap, gid: bytes) -> None:
        """Send Reports in steps that a port or a multicast group appeared or disappeared.

        Each subscriber of this trap receives one. Do nothing without subscriptions; drop the notice
        with MAX_NOTICES pending.
        """
        if not self._subscriptions:
            return
        if self._notices >= MAX_NOTICES:
            log.info("notice %s dropped: too many are pending", trap.name)
            return
        self._notices += 1
        self._worker.begin(self._notice_job(trap, gid))

    def _notice_job(self, trap: SmTrap, gid: bytes) -> Job:
        """Send a Report to each subscriber that wants the trap; each step yields its cost."""
        data = notice.new(
            is_generic=1, trap_type=_SUBNET_MANAGEMENT, producer_type=_CLASS_MANAGER,
            trap_num=trap, issuer_lid=SM_LID, gid=gid, issuer_gid=self._issuer_gid,
        )  # fmt: skip
        try:
            for key, subscriber in list(self._subscriptions.items()):
                if self._wants(inform_info.view(key[2]), trap) and key in self._subscriptions:
                    self._report(subscriber, bytes(data))
                    yield _COST_OF_A_REPORT
                else:
                    yield 1
        finally:
            self._notices -= 1

    def answered(self, lid: int, tid: int) -> None:
        """End the Report that a ReportResp answers; ignore an unknown one or another LID's."""
        report = self._reports.get(tid)
        if report is not None and report.to.lid == lid:
            self._forget(tid)

    def _forget(self, tid: int) -> None:
        to, owner = self._reports.pop(tid)
        self._unanswered[to.lid] -= 1
        self._unanswered_by[owner.host] -= 1

    def drop_ports(self, lids: Set[int]) -> None:
        """Drop the subscriptions and unanswered Reports of ports that left the subnet."""
        self._subscriptions = {
            key: entry for key, entry in self._subscriptions.items() if key[0] not in lids
        }
        for tid in [tid for tid, report in self._reports.items() if report.to.lid in lids]:
            self._forget(tid)
        self._unanswered, self._unanswered_by = +self._unanswered, +self._unanswered_by

    def _wants(self, info: inform_info, trap: SmTrap) -> bool:
        """Return whether a subscription covers the SA's own notices of this trap.

        Compared are GID or LID range, generic type, trap number, notice type and producer.
        """
        if any(info.gid):
            of_issuer = info.gid == self._issuer_gid
        else:
            first, last = info.lid_range_begin, info.lid_range_end
            of_issuer = first == _ALL_LIDS or first <= SM_LID <= max(first, last)
        return (
            info.is_generic == 1
            and info.trap_num in (trap, _ALL_TRAPS)
            and info.trap_type in (_SUBNET_MANAGEMENT, _ALL_TYPES)
            and info.producer_type in (_CLASS_MANAGER, _ALL_PRODUCERS)
            and of_issuer
        )

    def _report(self, subscriber: _Subscriber, data: bytes) -> None:
        """Send a Report until it is answered; drop it with too many unanswered.

        The limits are MAX_REPORTS, MAX_REPORTS_OF_A_PORT for its receiver, and those of its host.
        """
        to, owner = subscriber
        if (
            self._unanswered[to.lid] >= MAX_REPORTS_OF_A_PORT
            or self._unanswered_by[owner.host] >= of_a_host(MAX_REPORTS)
            or len(self._reports) >= MAX_REPORTS
        ):
            log.info("report to LID %#x dropped: too many are unanswered", to.lid)
            return
        tid, self._next_tid = self._next_tid, self._next_tid + 1
        self._reports[tid] = subscriber
        self._unanswered[to.lid] += 1
        self._unanswered_by[owner.host] += 1
        mad = sa_mad.new(
            mad_hdr={
                "base_version": BASE_VERSION,
                "mgmt_class": MgmtClass.SUBN_ADM,
                "class_version": CLASS_VERSION,
                "method": Method.REPORT,
                "tid": tid,
                "attr_id": SaAttr.NOTICE,
            },
            data=data.ljust(DATA_BYTES, b"\0"),
        )
        self._transmit(tid, bytes(mad), 1)

    def _transmit(self, tid: int, mad: bytes, tries: int) -> None:
        """Send a Report and schedule its repetition; give up after MAX_TRIES.

        Do nothing for a Report that was answered or whose receiver has left.
        """
        report = self._reports.get(tid)
        if report is None:
            return
        to = report.to
        if tries > MAX_TRIES:
            log.info("LID %#x does not answer reports", to.lid)
            self._forget(tid)
            return
        self._clock.call_later(
            REPORT_TIMEOUT_NS, lambda: self._worker.begin(self._again(tid, mad, tries + 1))
        )
        self._send(mad, to)

    def _again(self, tid: int, mad: bytes, tries: int) -> Job:
        if tid in self._reports:
            self._transmit(tid, mad, tries)
            yield _COST_OF_A_REPORT
