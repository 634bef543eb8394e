"""Counters of flow table entries, one by one or in bulks.

A bulk has as many counters as the capability flow_counter_bulk_alloc says, with numbers that follow
each other; the driver has the counters of tc's rules out of bulks (core/fs_counters.c:
mlx5_fc_bulk_create). Of the numbers that there are, the upper half is of bulks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emu.device.errors import CmdError
from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from emu.device.objects.table import Table
from layouts.enums import Status

COUNTERS_PER_UNIT: Final = 128
"""Counters of a bulk of size 1 (mlx5_ifc.h: MLX5_FC_BULK_SIZE_FACTOR)."""
_COUNTER_BYTES: Final = 160


def _counters(made: Limits) -> int:
    """How many there are at most, from number 1 on."""
    general = made.caps.general
    counters: int = general.max_flow_counter_31_16 << 16 | general.max_flow_counter_15_0
    return counters


def _counters_per_bulk(made: Limits) -> int:
    """0 where the device has no bulks."""
    return made.caps.general.flow_counter_bulk_alloc * COUNTERS_PER_UNIT


def _bulks(made: Limits) -> int:
    """How many bulks there are at most, in the upper half of the numbers."""
    size = _counters_per_bulk(made)
    return _counters(made) // (2 * size) if size else 0


def _first_of_bulks(made: Limits) -> int:
    """The number from which on they are of bulks; behind all where there are none."""
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
    """``size`` counters with numbers that follow each other."""

    __slots__ = ("counters",)
    kind = "flow counter bulk"
    numbering = Numbering(_bulks, first=0)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.counters = tuple(FlowCounter() for _ in range(size))

    @property
    def host_bytes(self) -> int:
        """What it costs the host, its counters included."""
        return self.BASE_BYTES + len(self.counters) * _COUNTER_BYTES

    def about(self) -> dict[str, object]:
        used = [counter for counter in self.counters if counter.refs]
        return {"counters": len(self.counters), "used": len(used)}


class FlowCounters:
    """A function's counters by their numbers, whether they are of a bulk or not."""

    def __init__(
        self, made: Limits, single: Table[FlowCounter], bulks: Table[FlowCounterBulk]
    ) -> None:
        self._single, self._bulks = single, bulks
        self._first, self._size = _first_of_bulks(made), _counters_per_bulk(made)

    @property
    def removed(self) -> int:
        """How often counters have gone."""
        return self._single.removed + self._bulks.removed

    def add(self) -> int:
        """Make one counter; returns its number. Raises as :meth:`Table.add`."""
        return self._single.add(FlowCounter())

    def add_bulk(self) -> int:
        """Make a bulk; returns the number of its first counter. Raises as :meth:`Table.add`."""
        self._bulks.check_room()
        bulk = FlowCounterBulk(self._size)
        number = self._first + self._bulks.add(bulk) * self._size
        for at, counter in enumerate(bulk.counters):
            counter.handle, counter.uid = number + at, bulk.uid
        return number

    def remove(self, number: int) -> None:
        """Destroy a counter, or the bulk of which it is the first one.

        Raises BAD_RES_STATE_ERR for none, and while an entry counts there.
        """
        slot, at = self._place(number)
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
        """The counter, whoever made it; None if there is none."""
        return self._counter(number, self._single.get, self._bulks.get)

    def usable(self, number: int) -> FlowCounter | None:
        """The counter; None if the caller has none with this number."""
        return self._counter(number, self._single.usable, self._bulks.usable)

    def need(self, number: int) -> FlowCounter:
        """The counter. Raises BAD_RES_ERR if the caller has none with this number."""
        counter = self.usable(number)
        return self._single.need(number) if counter is None else counter

    def _counter(
        self,
        number: int,
        single: Callable[[int], FlowCounter | None],
        bulks: Callable[[int], FlowCounterBulk | None],
    ) -> FlowCounter | None:
        slot, at = self._place(number)
        if slot < 0:
            return single(number)
        bulk = bulks(slot)
        return None if bulk is None else bulk.counters[at]

    def _place(self, number: int) -> tuple[int, int]:
        """The handle of its bulk, and its place there; (-1, 0) for numbers of no bulk."""
        if number < self._first or not self._size:
            return -1, 0
        return divmod(number - self._first, self._size)
