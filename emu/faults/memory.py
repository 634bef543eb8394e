"""The points of DMA: a tap on guest memory, in place only while a rule wants it.

The objects of the device keep the memory that they were made with, so the tap stands before the
methods of that memory itself; when it goes, nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emu.faults.event import Event
from emu.faults.vocabulary import Point
from emu.ports import DmaError

if TYPE_CHECKING:
    from emu.faults.injector import Injector

_METHODS = ("read", "write", "view", "segments")


class MemoryTap:
    """Asks the rules before an access of guest memory."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults
        self._memory: Any = None

    def set(self, *, wanted: bool) -> None:
        """Stand before the memory, or stand aside."""
        if not wanted:
            self.remove()
        elif self._memory is None:
            self._memory = memory = self._faults.function.memory
            for name in _METHODS:
                setattr(memory, name, self._asking(name, getattr(memory, name)))
        if wanted:
            # What was translated before would not come by here.
            self._faults.hca.forget_views()

    def remove(self) -> None:
        """Stand aside."""
        memory, self._memory = self._memory, None
        if memory is not None:
            for name in _METHODS:
                delattr(memory, name)

    def _asking(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def ask(iova: int, what: Any, *, writable: bool = True) -> Any:
            length = len(what) if name == "write" else what
            is_write = name == "write" or (name != "read" and writable)
            self._check(Point.DMA_WRITE if is_write else Point.DMA_READ, iova, length)
            return (
                inner(iova, what)
                if name in ("read", "write")
                else inner(iova, what, writable=writable)
            )

        return ask

    def _check(self, point: Point, iova: int, length: int) -> None:
        rule = self._faults.at(Event(point, {"address": iova, "length": length}))
        if rule is not None:
            raise DmaError(iova, length, f"fault {rule.name}")
