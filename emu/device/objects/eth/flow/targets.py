"""Destinations that lead on to flow tables: samplers, and places in software-owned tables."""

from __future__ import annotations

from typing import Final

from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

MAX_SAMPLERS: Final = 1 << 12


class Sampler(Object):
    """A destination that sends packets to a table, each ``ratio``-th also to a second table."""

    __slots__ = ("_passed", "default", "level", "ratio", "sample")
    kind = "flow sampler"
    numbering = Numbering(lambda made: MAX_SAMPLERS)
    BASE_BYTES = 512

    def __init__(self, default: FlowTable, sample: FlowTable, ratio: int, level: int) -> None:
        """Create a sampler of ``level``, which counts like the level of a table."""
        super().__init__()
        self.default, self.sample = default, sample
        self.ratio, self.level = ratio, level
        self._passed = 0

    def about(self) -> dict[str, object]:
        return {"default": self.default.handle, "sample": self.sample.handle, "ratio": self.ratio}

    def holds(self) -> tuple[Object, ...]:
        return (self.default, self.sample)

    def outcome(self, octets: int, l2_bytes: int, now_ns: int) -> int:
        """Count the packet; return 1 for each ``ratio``-th one, which is a sample, else 0.

        Length and time are ignored.
        """
        self._passed = (self._passed + 1) % self.ratio
        return int(not self._passed)

    def tables(self, outcome: int) -> tuple[FlowTable, ...]:
        """Return the tables for an ``outcome``: the default one, for 1 also the sample table."""
        return (self.default, self.sample) if outcome else (self.default,)


class StcJump(Object):
    """A destination inside a software-owned table: the entry after a meter."""

    __slots__ = ("address", "table")
    kind = "steering entry"

    def __init__(self, table: FlowTable, address: int) -> None:
        super().__init__()
        self.table = table
        self.address = address
