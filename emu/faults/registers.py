"""The points of BAR 0: registers read and written, and doorbells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emu.bars import UAR_CQ_ARM, UAR_SEND
from emu.faults.event import Event
from emu.faults.vocabulary import Action, Point
from emu.ports import Buffer

if TYPE_CHECKING:
    from emu.faults.injector import Injector

_QPN = slice(4, 7)
_CQN = slice(5, 8)
_LONGEST_VALUE = 8


class RegisterPoint:
    """Stands at the accesses of BAR 0."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    @property
    def is_gone(self) -> bool:
        """Whether the function is off the bus."""
        return self._faults.effects.is_gone

    def read(self, offset: int, data: bytes) -> bytes:
        """What the driver sees of ``data``."""
        if self.is_gone:
            return b"\xff" * len(data)
        rule = self._rule(Point.MMIO_READ, offset, data)
        if rule is None:
            return data
        if rule.action is Action.REPLACE:
            return (bytes.fromhex(rule.data or "") + data)[: len(data)]
        if rule.action is Action.CORRUPT:
            value = int((rule.set or {}).get("value", 0))
            return (value & (1 << 8 * len(data)) - 1).to_bytes(len(data), "big")
        return data

    def takes(self, offset: int, data: Buffer) -> bool:
        """Whether a write arrives."""
        return not self.is_gone and self._rule(Point.MMIO_WRITE, offset, data) is None

    def _rule(self, point: Point, offset: int, data: Buffer) -> Any:
        if not self._faults.wants(point):
            return None
        from emu.trace.mmio import describe  # it builds a table of all registers

        name = describe(offset, data).get("register", "")
        values = {"offset": offset, "length": len(data), "register": name}
        return self._faults.at(Event(point, values))


class DoorbellPoint:
    """Stands at the doorbells: of commands, and of the UAR pages."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    def command(self, slots: int, ring: Callable[[int], None]) -> None:
        """The command doorbell; ``number`` is the vector of slots."""
        self._pass("cmd", slots, lambda: ring(slots))

    def uar(
        self, index: int, offset: int, data: Buffer, ring: Callable[[int, int, Buffer], None]
    ) -> None:
        """A doorbell of a UAR page; ``number`` is the queue's."""
        kept = bytes(data)
        if offset >= UAR_SEND:
            kind, number = "send", int.from_bytes(kept[_QPN], "big")
        elif offset == UAR_CQ_ARM:
            kind, number = "cq", int.from_bytes(kept[_CQN], "big")
        else:
            kind, number = "eq", kept[0] if kept else 0
        self._pass(kind, number, lambda: ring(index, offset, kept))

    def _pass(self, kind: str, number: int, ring: Callable[[], None]) -> None:
        rule = self._faults.at(Event(Point.DOORBELL, {"kind": kind, "number": number}))
        if rule is None:
            ring()
        elif rule.action is Action.DELAY:
            self._faults.later(rule, ring)
        elif rule.action is Action.DUPLICATE:
            for _ in range(1 + (rule.count or 1)):
                ring()
