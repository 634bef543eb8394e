"""The fault points of page faults: before the event is posted, and when the driver resumes one.

Page faults of both schemes use these points. A rule can match the queue pair, the waiting side and
the key; the bytes of the event pass the point ``eqe``.
"""

from __future__ import annotations

from functools import partial

from emu.device.engine.events import eq as eq_engine
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.page_faults import PAGE_FAULT_POINT, RESUME_POINT
from emu.device.faults.delivery_actions import Delayable, Losable
from emu.device.faults.event import Event, EventField, RuleInjector
from emu.device.faults.parameters import COUNT, of_bits, repetitions, set_of
from emu.device.faults.points.injected import STATUS, SYNDROME, InjectedError
from emu.device.faults.registry import action, point
from emu.device.faults.rule import Rule
from emu.device.objects.queues.page_fault import PageFault, PageFaultType, Side
from layouts.enums.eqe import EventType

_FIELDS = (
    EventField("kind", PageFaultType, is_recorded=True), EventField("side", Side, is_recorded=True),
    EventField("qpn", int), EventField("key", int), EventField("length", int),
)  # fmt: skip


class _OfPageFault(Event[None]):
    __slots__ = ("_page_fault",)
    ends_with_objects = True

    def __init__(self, faults: RuleInjector, page_fault: PageFault) -> None:
        super().__init__(faults)
        self._page_fault = page_fault

    @property
    def kind(self) -> PageFaultType:
        """The page_fault_type."""
        return self._page_fault.access.kind

    @property
    def side(self) -> Side:
        """The half of the queue pair that waits."""
        return self._page_fault.side

    @property
    def qpn(self) -> int:
        """The queue pair that waits."""
        return self._page_fault.qp.handle

    @property
    def key(self) -> int:
        """The memory key whose page is absent."""
        return self._page_fault.page.key

    @property
    def length(self) -> int:
        """Number of absent bytes."""
        return self._page_fault.page.length

    def _end(self, *, refused: bool) -> None:
        """End the wait, unless it has ended already."""
        if self._page_fault.is_open:
            page_faults.close(self.faults.hca.events, self._page_fault, refused=refused)


@point(PAGE_FAULT_POINT, "the event of a page fault is about to be posted", *_FIELDS)
class PageFaultRaised(_OfPageFault, Losable[None], Delayable[None]):
    """A page fault whose event has not been posted."""

    __slots__ = ()

    def go_on(self) -> None:
        """Post the event (:func:`emu.device.engine.mr.page_faults.post_event`).

        No effect if the page fault has ended since.
        """
        if self._page_fault.is_open:
            page_faults.post_event(self.faults.hca.events, self._page_fault)

    @action("the page fault fails, and the driver is not notified")
    def fail(self, rule: Rule) -> None:
        """End the wait in error, as if the driver had refused; the driver gets no event.

        The wait ends in the next round, once the faulting operation has been suspended.
        """
        self.faults.delays.later(rule, partial(self._end, refused=True), self, ms=0)

    @action("the event is repeated count times (default 1)", takes=[COUNT])
    def duplicate(self, rule: Rule) -> None:
        """Post the event, and ``count`` times more (1 by default) with the same token."""
        self.go_on()
        for _ in range(repetitions(rule)):
            self._post(self._page_fault.token)

    @action("the event has the token in set", needs=[set_of(token=of_bits(48))])
    def corrupt(self, rule: Rule) -> None:
        """Post an event with another token."""
        self._post(rule["set"].get("token", self._page_fault.token))

    def _post(self, token: int) -> None:
        """Post an event with this token to the EQ; lost when the EQ is full or missing."""
        hca = self.faults.hca
        eq = hca.events.subscribers.get(EventType.PAGE_FAULT)
        if eq is not None:
            eq_engine.post(hca.events, eq, EventType.PAGE_FAULT, *self._page_fault.event(token))


@point(
    RESUME_POINT,
    "the driver resumes a page fault; `error` is 1 when the driver could not resolve the fault",
    *_FIELDS, EventField("error", int, is_recorded=True),
)  # fmt: skip
class PageFaultResumed(_OfPageFault, Losable[None], Delayable[None]):
    """A page fault that the driver resumes."""

    __slots__ = ("error",)

    def __init__(self, faults: RuleInjector, page_fault: PageFault, error: bool) -> None:
        super().__init__(faults, page_fault)
        self.error = int(error)

    def go_on(self) -> None:
        """End the wait with the driver's result, unless it has ended already."""
        self._end(refused=bool(self.error))

    @action("the command fails with status and syndrome, and the page fault stays open",
            takes=[STATUS, SYNDROME])  # fmt: skip
    def fail(self, rule: Rule) -> None:
        """Refuse the command and keep the page fault open. Raises CmdError."""
        raise InjectedError(rule)

    @action("the command succeeds, but the queue pair continues to wait")
    def drop(self, _rule: Rule) -> None:
        """Do nothing: the command succeeds, and the queue pair waits on."""

    @action("the resume counts as an error or as a success, as set by error in set",
            needs=[set_of(error=of_bits(1))])  # fmt: skip
    def corrupt(self, rule: Rule) -> None:
        """End the wait with the other result."""
        self._end(refused=bool(rule["set"].get("error", self.error)))
