"""Bounded tables of the device's objects by handle, which count references.

Handles are the numbers in commands (pdn, cqn, qpn, mkey index, ...). A freed handle goes to the end
of a queue, so a stale handle stays invalid for as long as possible. The memory of a table grows
with the number of existing objects, not with its limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from emu.device.errors import CmdError
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import CommandIssuer, Object
from layouts.enums.cmd import Status

T = TypeVar("T", bound=Object)

MAX_QUEUED = 1 << 16
"""Maximum number of freed handles that are kept in order."""
MAX_SEARCHED_NUMBERS = 1 << 10
"""Maximum number of free handles that one search finds."""


class Numbers:
    """The handles that one or more tables assign to objects: from ``first`` to ``limit - 1``, in
    multiples of ``step``.

    A freed handle goes to the end of the queue, unless MAX_QUEUED handles are there already. When
    the queue is empty, a search finds the other free handles, starting behind the last one found.
    """

    def __init__(self, first: int, limit: int, step: int = 1) -> None:
        first = -(-first // step) * step
        self.first = first
        self.limit = limit
        self.step = step
        self.holders: dict[int, Object] = {}
        """The current holder of each handle."""
        self._next = first
        self._freed: deque[int] = deque()
        self._unqueued = 0
        """Number of freed handles that are not in the queue."""
        self.free = max(-(-(limit - first) // step), 0)
        """Number of free handles."""
        self._search_at = first

    def take(self, holder: Object) -> int:
        """Assign the next free handle to ``holder`` and return it; there must be one.

        Unused handles come first, then freed ones, the longest-free first.
        """
        if self._next < self.limit:
            number = self._next
            self._next += self.step
        else:
            if not self._freed:
                self._refill()
            number = self._freed.popleft()
        self.free -= 1
        self.holders[number] = holder
        return number

    def _refill(self) -> None:
        """Search up to MAX_SEARCHED_NUMBERS free handles, and queue them in the empty queue.

        The caller knows that some handle is free and that every handle has been used once.
        """
        number, holders, free = self._search_at, self.holders, self._freed
        count = min(MAX_SEARCHED_NUMBERS, self._unqueued)
        while len(free) < count:
            if number not in holders:
                free.append(number)
            number += self.step
            if number >= self.limit:
                number = self.first
        self._search_at = number
        self._unqueued -= count

    def give_back(self, number: int) -> None:
        """Free the handle of a removed object, to be assigned again as late as possible."""
        del self.holders[number]
        self.free += 1
        if len(self._freed) < MAX_QUEUED:
            self._freed.append(number)
        else:
            self._unqueued += 1


class Table(Generic[T]):
    """Objects of one kind. Handles run from ``first`` to ``limit - 1``.

    Handles shared with other tables run to the end of the shared range. The table then holds at
    most ``limit - first`` objects.

    An object belongs to the ``caller`` that adds it; other uids cannot look it up. Its cost is
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
        """Create an empty table of ``of``, whose ``kind`` appears in refusals.

        ``numbers`` are the handles, if the table shares them with tables of other kinds.
        """
        self.kind = of.kind
        self._ledger = ledger
        self._caller = caller or CommandIssuer()
        self.first = first
        self.limit = limit
        self._hold({})
        self.added = 0
        """Number of objects ever added. Handles are reused, this number is not."""
        self.removed = 0
        """Number of objects ever removed."""
        self.numbers = numbers or Numbers(first, limit)
        """The handles of the table."""

    def __len__(self) -> int:
        return len(self.by_handle)

    def __iter__(self) -> Iterator[T]:
        return iter(self.by_handle.values())

    def _hold(self, objects: dict[int, T]) -> None:
        """Replace the table's dictionary, and the ``get`` method that belongs to it."""
        self.by_handle = objects
        """The objects; others only look up in it, as every message does."""
        self.get: Callable[[int], T | None] = objects.get
        """``get(handle)`` returns the object, or None if no existing object has this handle."""

    def need(self, handle: int) -> T:
        """Return the object that a command refers to.

        Raises BAD_RES_ERR if the caller has no object with this handle.
        """
        item = self.by_handle.get(handle)
        if item is None or not self._caller.may_use(item):
            raise CmdError(Status.BAD_RES_ERR, f"no such {self.kind}", f"{handle:#x}")
        return item

    def subject(self, handle: int) -> T:
        """Return the object that a command changes or destroys.

        Raises BAD_RES_STATE_ERR if the caller has no object with this handle: the firmware reports
        a context in the wrong state. Logs show the status for 2RST_QP, DESTROY_QP and DESTROY_CQ,
        which a virtual function sent after a reset had removed its objects. For other commands the
        status is inferred.
        """
        item = self.usable(handle)
        if item is None:
            raise CmdError(
                Status.BAD_RES_STATE_ERR, f"no {self.kind} to change or destroy", f"{handle:#x}"
            )
        return item

    def usable(self, handle: int) -> T | None:
        """Return the object; None if the caller has no object with this handle."""
        item = self.by_handle.get(handle)
        return item if item is not None and self._caller.may_use(item) else None

    def check_space(self) -> None:
        """Raise LIM_ERR when every handle is taken, or the table is full; assign nothing.

        Public logs of ConnectX-6 show LIM_ERR for CREATE_QP beside 130,763 queue pairs, and for
        CREATE_MKEY. Every limit in a capability is therefore refused with LIM_ERR. NO_RES_ERR is
        for firmware without pages, and for occupied device memory.
        """
        if len(self.by_handle) >= self.limit - self.first or not self.numbers.free:
            raise CmdError(Status.LIM_ERR, f"out of {self.kind} handles", f"{len(self)} live")

    def add(self, item: T) -> int:
        """Assign a handle to the object, charge its cost and count its references.

        Return the handle. The object belongs to the uid of the running command. Raises LIM_ERR, and
        then changes nothing, when the table or the ledger is full.
        """
        self.check_space()
        charge = item.host_bytes
        self._ledger.take(self.kind, charge)
        item.charge = charge
        handle = self.numbers.take(item)
        self.added += 1
        item.handle = handle
        item.uid = self._caller.uid
        self._caller.owned[item.uid] += 1
        self.by_handle[handle] = item
        for reference in item.holds():
            reference.refs += 1
        return handle

    def removable(self, handle: int) -> T:
        """Return the object if ``remove`` would succeed; change nothing. Raises as ``remove``."""
        item = self.subject(handle)
        if not self._caller.owns(item):
            raise CmdError(
                Status.BAD_RES_STATE_ERR, f"{self.kind} is owned by the driver", f"{item}"
            )
        if item.refs:
            raise CmdError(
                Status.BAD_RES_STATE_ERR,
                f"{self.kind} is still in use",
                f"{item}: {item.refs} references",
            )
        return item

    def remove(self, handle: int) -> T:
        """Remove and return the object; free its handle, credit its cost, drop its references.

        Raises BAD_RES_STATE_ERR for no object, for one that the caller does not own, and while
        others refer to it. Messages of kernel commits quote that status for DEALLOC_PD,
        DESTROY_FLOW_GROUP, DEALLOC_MODIFY_HEADER_CONTEXT and DEALLOC_PACKET_REFORMAT_CONTEXT. For
        other commands the status is inferred: RES_BUSY is in no log.
        """
        item = self.removable(handle)
        del self.by_handle[handle]
        self.removed += 1
        self.numbers.give_back(handle)
        self._ledger.give_back(self.kind, item.charge)
        self._caller.owned[item.uid] -= 1
        for reference in item.holds():
            reference.refs -= 1
        return item

    def recharge(self, item: T) -> None:
        """Charge or credit the difference since the last charge.

        The caller has checked the space.
        """
        charge = item.host_bytes
        self._ledger.hold(self.kind, charge - item.charge)
        item.charge = charge

    def change(self, item: T, apply: Callable[[], None], cost: int = 0) -> None:
        """Call ``apply``, then move references and charge to what the object holds afterwards.

        ``cost`` is the largest increase in bytes. Raises LIM_ERR without change if the ledger has
        too little space; a change without cost is never refused.
        """
        if cost:
            self._ledger.check(self.kind, cost)
        before = item.holds()
        apply()
        for reference in item.holds():
            reference.refs += 1
        for reference in before:
            reference.refs -= 1
        self.recharge(item)

    def clear(self) -> dict[int, T]:
        """Remove and return all objects, even referenced ones; their handles are not freed.

        The caller updates reference counts and ledger, and makes a new table.
        """
        objects = self.by_handle
        self._hold({})
        return objects
