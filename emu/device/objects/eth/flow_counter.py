"""Counters of flow table entries, allocated singly or in bulks.

The capability flow_counter_bulk_alloc sets the size of a bulk, whose numbers are consecutive. The
driver allocates the counters of tc rules in bulks (core/fs_counters.c: mlx5_fc_bulk_create). Bulks
occupy the upper half of the number space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emu.device.errors import CmdError
from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from layouts.enums.cmd import Status

COUNTERS_PER_UNIT: Final = 128
"""Counters of a bulk of size 1 (mlx5_ifc.h: MLX5_FC_BULK_SIZE_FACTOR)."""
_COUNTER_BYTES: Final = 160


def _counters(made: Limits) -> int:
    """Return the maximum number of flow counters by the capabilities; numbers start at 1."""
    general = made.caps.general
    counters: int = general.max_flow_counter_31_16 << 16 | general.max_flow_counter_15_0
    return counters


def _counters_per_bulk(made: Limits) -> int:
    """Return the size of a bulk; 0 if the device has no bulks."""
    return made.caps.general.flow_counter_bulk_alloc * COUNTERS_PER_UNIT


def _bulks(made: Limits) -> int:
    """Return the maximum number of bulks, in the upper half of the numbers."""
    size = _counters_per_bulk(made)
    return _counters(made) // (2 * size) if size else 0


def _first_of_bulks(made: Limits) -> int:
    """Return the first number of the bulks; one above all numbers if there are no bulks."""
    counters, bulks = _counters(made), _bulks(made)
    return counters - bulks * _counters_per_bulk(made) if bulks else 1 + counters


class FlowCounter(Object):
    """Counts packets and bytes of the flow table entries that refer to it."""

    __slots__ = ("octets", "packets")
    kind = "flow counter"
    numbering = Numbering(_first_of_bulks)

    def __init__(self) -> None:
        super().__init__()
        self.packets = self.octets = 0

    def about(self) -> dict[str, object]:
        return {"packets": self.packets, "octets": self.octets}


class FlowCounterBulk(Object):
    """``size`` counters with consecutive numbers."""

    __slots__ = ("counters",)
    kind = "flow counter bulk"
    numbering = Numbering(_bulks, first=0)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.counters = tuple(FlowCounter() for _ in range(size))

    @property
    def host_bytes(self) -> int:
        """Cost on the host, counters included, in bytes."""
        return self.BASE_BYTES + len(self.counters) * _COUNTER_BYTES

    def about(self) -> dict[str, object]:
        used = [counter for counter in self.counters if counter.refs]
        return {"counters": len(self.counters), "used": len(used)}


class FlowCounters:
    """A function's counters by number, single ones and those in bulks."""

    def __init__(
        self, made: Limits, single: Table[FlowCounter], bulks: Table[FlowCounterBulk]
    ) -> None:
        self._single, self._bulks = single, bulks
        self._first, self._size = _first_of_bulks(made), _counters_per_bulk(made)

    @property
    def removed(self) -> int:
        """Number of removals so far, of single counters and of bulks."""
        return self._single.removed + self._bulks.removed

    def add(self) -> int:
        """Create one counter and return its number. Raises as :meth:`Table.add`."""
        return self._single.add(FlowCounter())

    def add_bulk(self) -> int:
        """Create a bulk of consecutive counters; return the number of its first counter.

        Raises as :meth:`Table.add`.
        """
        self._bulks.check_space()
        bulk = FlowCounterBulk(self._size)
        number = self._first + self._bulks.add(bulk) * self._size
        for at, counter in enumerate(bulk.counters):
            counter.handle, counter.uid = number + at, bulk.uid
        return number

    def remove(self, number: int) -> None:
        """Destroy a counter, or the whole bulk that begins with this number.

        Raises BAD_RES_STATE_ERR for any other number, and while an entry uses the counter or any
        counter of the bulk.
        """
        slot, at = self._locate(number)
        if slot < 0 or at:
            self._single.remove(number)
            return
        bulk = self._bulks.removable(slot)
        if any(counter.refs for counter in bulk.counters):
            raise CmdError(
                Status.BAD_RES_STATE_ERR, "a flow counter of the bulk is still in use", f"{bulk}"
            )
        self._bulks.remove(slot)

    def get(self, number: int) -> FlowCounter | None:
        """Return the counter with this number, whoever owns it; None without one."""
        return self._counter(number, self._single.get, self._bulks.get)

    def usable(self, number: int) -> FlowCounter | None:
        """Return the counter; None if the sender has none with this number."""
        return self._counter(number, self._single.usable, self._bulks.usable)

    def need(self, number: int) -> FlowCounter:
        """Return the counter. Raises BAD_RES_ERR if the sender has none with this number."""
        counter = self.usable(number)
        return self._single.need(number) if counter is None else counter

    def _counter(
        self,
        number: int,
        single: Callable[[int], FlowCounter | None],
        bulks: Callable[[int], FlowCounterBulk | None],
    ) -> FlowCounter | None:
        """Return a single counter, or one of a bulk, found by the given lookups.

        None without one.
        """
        slot, at = self._locate(number)
        if slot < 0:
            return single(number)
        bulk = bulks(slot)
        return None if bulk is None else bulk.counters[at]

    def _locate(self, number: int) -> tuple[int, int]:
        """Return the handle of the bulk and the position in it; (-1, 0) for single counters."""
        if number < self._first or not self._size:
            return -1, 0
        return divmod(number - self._first, self._size)
