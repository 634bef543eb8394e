"""The hub's reports to its members: the ports of all processes, and the GUIDs of all functions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from emu.device.port.ib.endport import steps_of
from emu.device.ports import Timer
from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.costs import LOG_NOTIFICATION_BYTES_PER_STEP, STEPS_PER_NOTIFICATION
from emu.server.net.fabric import port_frames, protocol
from emu.server.net.fabric.connection import FabricConnection
from emu.server.net.fabric.hub_host import HubHost
from emu.server.net.fabric.hub_member import HubMember
from emu.server.net.fabric.protocol import FrameKind, Identity

log = logging.getLogger(__name__)

NEWS_NS = 20_000_000
"""Minimum interval between two reports of changed ports."""
MAX_MISSED = 3000
"""Number of reports that a member may leave unread before it is disconnected: about a minute."""


class PortReports:
    """Reports to every member what has changed elsewhere, at most once in NEWS_NS."""

    def __init__(
        self,
        site: HubHost,
        members: Mapping[FabricConnection, HubMember],
        own: Sequence[Identity],
    ) -> None:
        """Report to ``members``; ``own`` are the functions of the hub's process."""
        self._site = site
        self._members = members
        self._own = own
        self._news: Timer | None = None
        """Timer of the next report of ports."""
        self._reported_ns = -NEWS_NS
        """Time of the last report."""
        self._has_changed = False
        """Whether members' ports have changed since our own process was notified."""

    def cancel(self) -> None:
        """Send no further reports."""
        if self._news is not None:
            self._news.cancel()

    def changed(self) -> None:
        """Schedule the reports of a member's changed ports, to members and our own process."""
        self._has_changed = True
        self.to_all()

    def to_all(self) -> None:
        """Schedule a report of all ports to every member, informed or not."""
        for member in self._members.values():
            member.is_informed = False
        self.later()

    def later(self) -> None:
        """Schedule a report: at once after NEWS_NS without one, else at the end of that interval.

        The interval bounds the traffic that a member with ever-changing ports causes.
        """
        if self._news is None:
            clock = self._site.clock
            delay = max(self._reported_ns + NEWS_NS - clock.now_ns(), 0)
            self._news = clock.call_later(delay, self.publish)

    def publish(self) -> None:
        """Call ``ports_changed`` of our process if due, and send PORTS to the uninformed members.

        GUIDS follows only when it differs from the last one sent. A member with an unread report,
        or beyond the round's budget, is served by a later report. Ports that are packed are charged
        last, so that large fabrics get reports as well.
        """
        self._news = None
        clock = self._site.clock
        self._reported_ns = clock.now_ns()
        ports = list(self._site.local_ports())
        own = b"".join(map(port_frames.port, ports))
        ports += [port for member in self._members.values() for port in member.unpacked()]
        others = {member.number: member.pack() for member in self._members.values()}
        for connection, member in list(self._members.items()):
            if not member.is_greeted or member.is_informed:
                continue
            if clock.budget.exhausted(TIMER_BUDGET) or not self._may_report(connection, member):
                self.later()
                continue
            member.is_informed = True
            news = b"".join((own, *(o for number, o in others.items() if number != member.number)))
            connection.send(FrameKind.PORTS, news)
            guids = protocol.guids(self._not_of(member))
            if guids != member.guids:
                member.guids = guids
                connection.send(FrameKind.GUIDS, guids)
            clock.budget.charge(
                STEPS_PER_NOTIFICATION + (len(news) >> LOG_NOTIFICATION_BYTES_PER_STEP)
            )
        clock.budget.charge(steps_of(ports))
        if self._has_changed:
            self._has_changed = False
            self._site.ports_changed()

    def _may_report(self, connection: FabricConnection, member: HubMember) -> bool:
        """Return whether a member has read its last report; False while one is unread.

        More than MAX_MISSED consecutive unread reports close the connection.
        """
        if not connection.is_behind:
            member.missed = 0
            return True
        member.missed += 1
        if member.missed > MAX_MISSED:
            connection.close("the member does not read")
        return False

    def _not_of(self, member: HubMember) -> Iterator[Identity]:
        """Yield the functions of all processes except this member's, our own included."""
        yield from self._own
        for other in self._members.values():
            if other is not member:
                yield from other.identities
