"""Bounded tables of the device's objects by handle, which count references.

Handles are the numbers that commands carry (pdn, cqn, qpn, mkey index, ...). A freed handle goes to
the end of the queue, so that a stale one stays invalid for as long as possible. The tables are as
large as the objects that exist, however many there may be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from emu.device.errors import CmdError
from emu.device.objects.command_issuer import CommandIssuer
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import Object
from layouts.enums import Status

T = TypeVar("T", bound=Object)

MAX_QUEUED = 1 << 16
"""Freed numbers that are kept in order."""
MAX_SEARCHED_NUMBERS = 1 << 10
"""Numbers that one search for free ones finds at most."""


class Numbers:
    """The numbers that one or more tables assign to objects: from ``first`` to ``limit - 1``.

    A number that is freed goes to the end of the queue. While MAX_QUEUED wait there, it is free
    without being in the queue; when nothing else is left, such numbers are looked for in turn, from
    the one behind the last that was found.
    """

    def __init__(self, first: int, limit: int) -> None:
        self.first = first
        self.limit = limit
        self.holders: dict[int, Object] = {}
        """The current holder of each number."""
        self._next = first
        self._freed: deque[int] = deque()
        self._unqueued = 0
        """How many numbers have been given back and are not in the queue."""
        self._looked_at = first

    @property
    def are_taken(self) -> bool:
        """Whether no number is free."""
        return not self._freed and self._next >= self.limit and not self._unqueued

    def take(self, holder: Object) -> int:
        """The next free number; there must be one."""
        if self._next < self.limit:
            number = self._next
            self._next += 1
        else:
            if not self._freed:
                self._look()
            number = self._freed.popleft()
        self.holders[number] = holder
        return number

    def _look(self) -> None:
        """Queue free numbers when the queue is empty and all numbers have been in use before."""
        number, holders, free = self._looked_at, self.holders, self._freed
        count = min(MAX_SEARCHED_NUMBERS, self._unqueued)
        while len(free) < count:
            if number not in holders:
                free.append(number)
            number = number + 1 if number + 1 < self.limit else self.first
        self._looked_at = number
        self._unqueued -= count

    def give_back(self, number: int) -> None:
        """Free a number; its holder is gone."""
        del self.holders[number]
        if len(self._freed) < MAX_QUEUED:
            self._freed.append(number)
        else:
            self._unqueued += 1


class Table(Generic[T]):
    """Objects of one kind. Handles run from ``first`` to ``limit - 1``.

    If the table shares its numbers with others, they run as far as these do, and there are at most
    ``limit - first`` objects.

    An object belongs to the ``caller`` that adds it and does not exist for other users. Its cost is
    charged to the ``ledger``.
    """

    def __init__(
        self,
        of: type[T],
        first: int,
        limit: int,
        ledger: Ledger,
        caller: CommandIssuer | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """``of`` is the objects' class, whose ``kind`` is in the table's refusals.

        ``numbers`` are the handles, if the table shares them with tables of other kinds.
        """
        self.kind = of.kind
        self._ledger = ledger
        self._caller = caller or CommandIssuer()
        self.first = first
        self.limit = limit
        self._hold({})
        self.added = 0
        """How many objects were ever added. Handles are reused, this number is not."""
        self.removed = 0
        """How many objects were ever removed."""
        self.numbers = numbers or Numbers(first, limit)
        """Its handles."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def _hold(self, objects: dict[int, T]) -> None:
        self._objects = objects
        self.get: Callable[[int], T | None] = objects.get
        """``get(handle)`` is the object, or None if no existing object has this handle.

        The dictionary's own method: every message looks up four objects.
        """

    def need(self, handle: int) -> T:
        """The object. Raises BAD_RES_ERR if the caller has no object with this handle."""
        item = self._objects.get(handle)
        if item is None or not self._caller.may_use(item):
            raise CmdError(Status.BAD_RES_ERR, f"no such {self.kind}", f"{handle:#x}")
        return item

    def subject(self, handle: int) -> T:
        """The object that a command changes or destroys, which names it by the handle.

        Raises BAD_RES_STATE_ERR if the caller has no object with this handle: to the firmware it is
        a context in the wrong state. That is known of 2RST_QP, DESTROY_QP and DESTROY_CQ, which a
        virtual function sent after its objects had gone with a reset, and inferred for the others.
        """
        item = self.usable(handle)
        if item is None:
            raise CmdError(
                Status.BAD_RES_STATE_ERR, f"no {self.kind} to change or destroy", f"{handle:#x}"
            )
        return item

    def usable(self, handle: int) -> T | None:
        """The object; None if the caller has no object with this handle."""
        item = self._objects.get(handle)
        return item if item is not None and self._caller.may_use(item) else None

    def check_room(self) -> None:
        """Raise LIM_ERR when every handle is taken, or the table has all that it may.

        Public logs of ConnectX-6 have LIM_ERR for CREATE_QP beside 130,763 queue pairs, and for
        CREATE_MKEY. Whatever a capability limits answers so here. NO_RES_ERR is for firmware that
        lacks pages, and for a place in device memory that is taken.
        """
        if len(self._objects) >= self.limit - self.first or self.numbers.are_taken:
            raise CmdError(Status.LIM_ERR, f"out of {self.kind} handles", f"{len(self)} live")

    def add(self, item: T) -> int:
        """Give the object a handle and count its references.

        Raises LIM_ERR when the table or the ledger is full.
        """
        self.check_room()
        charge = item.host_bytes
        self._ledger.take(self.kind, charge)
        item.charge = charge
        handle = self.numbers.take(item)
        self.added += 1
        item.handle = handle
        item.uid = self._caller.uid
        self._caller.owned[item.uid] += 1
        self._objects[handle] = item
        for reference in item.holds():
            reference.refs += 1
        return handle

    def removable(self, handle: int) -> T:
        """The object, which may be removed. Raises as ``remove``."""
        item = self.subject(handle)
        if not self._caller.owns(item):
            raise CmdError(Status.BAD_RES_STATE_ERR, f"{self.kind} is the driver's own", f"{item}")
        if item.refs:
            raise CmdError(
                Status.BAD_RES_STATE_ERR,
                f"{self.kind} is still in use",
                f"{item}: {item.refs} references",
            )
        return item

    def remove(self, handle: int) -> T:
        """Remove the object. Raises BAD_RES_STATE_ERR for none, and while others refer to it.

        The latter is known of DEALLOC_PD, DESTROY_FLOW_GROUP, DEALLOC_MODIFY_HEADER_CONTEXT and
        DEALLOC_PACKET_REFORMAT_CONTEXT, which messages of kernel commits quote, and inferred for
        the others: RES_BUSY is in no log.
        """
        item = self.removable(handle)
        del self._objects[handle]
        self.removed += 1
        self.numbers.give_back(handle)
        self._ledger.give_back(self.kind, item.charge)
        self._caller.owned[item.uid] -= 1
        for reference in item.holds():
            reference.refs -= 1
        return item

    def recharge(self, item: T) -> None:
        """Charge the ledger for an object whose cost has changed; it has already been checked."""
        charge = item.host_bytes
        self._ledger.hold(self.kind, charge - item.charge)
        item.charge = charge

    def change(self, item: T, apply: Callable[[], None], cost: int = 0) -> None:
        """Apply a change after which the object may refer to others, and cost ``cost`` bytes more.

        Raises LIM_ERR when the ledger has no such room; then nothing changes.
        """
        self._ledger.check(self.kind, cost)
        before = item.holds()
        apply()
        for reference in item.holds():
            reference.refs += 1
        for reference in before:
            reference.refs -= 1
        self.recharge(item)

    def clear(self) -> dict[int, T]:
        """Remove all objects, referenced or not; the caller takes care of counts and ledger."""
        objects = self._objects
        self._hold({})
        return objects
