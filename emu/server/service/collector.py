"""Prevents long runs of Python's garbage collector inside a round.

Reference counting frees most of the device's objects. The collector frees reference cycles, for
which it visits every live object: a second for a million memory keys, 50 ms for the modules alone.
Here it visits only new objects: the modules' objects are frozen (:func:`gc.freeze`), and automatic
collections of the oldest generation are off. A function's reset leaves all its old objects behind;
a single full collection follows, as soon as few objects are left.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from emu.device.function.function import Function

FEW = 5000
"""Number of device objects up to which a full collection is short enough."""

_OLDEST = 2
"""The generation whose collection visits all unfrozen objects."""
_NEVER = (1 << 31) - 1
"""Threshold of the middle generation's collections that never triggers the oldest one."""


class GarbageCollector:
    """Controls Python's garbage collector for the functions of a server."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._restarts = 0
        self._young, self._middle, _ = gc.get_threshold()
        self.visit(new=True)

    def visit(self, *, new: bool) -> None:
        """Let the next collections visit new objects alone, or all objects."""
        gc.set_threshold(self._young, self._middle, _NEVER if new else 0)

    def called(self, phase: str, info: Mapping[str, object]) -> None:
        """Handle the start or end of a collection (:data:`gc.callbacks`); do nothing at its start.

        After a reset of a function, let the next collection visit all objects as soon as at most
        FEW device objects are left. After that full collection, return to new objects alone.
        """
        if phase != "stop":
            return
        restarts = sum(function.restarts for function in self._functions)
        if restarts == self._restarts:
            return
        if info["generation"] == _OLDEST:
            self._restarts = restarts
            self.visit(new=True)
        elif self._live() <= FEW:
            self.visit(new=False)

    def _live(self) -> int:
        """Return the number of device objects of all functions, with those of deferred free."""
        return sum(
            len(function.deferred_free) + sum(map(len, function.hca.tables))
            for function in self._functions
        )


@contextmanager
def short_collections(functions: Sequence[Function]) -> Iterator[None]:
    """Keep garbage collections short while the body runs.

    Collects and freezes (gc.freeze) all existing objects, which are then never visited, and turns
    automatic full collections off. At the end restores the thresholds and unfreezes. The body may
    add functions to the list.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.collect()  # an empty collection: CPython compares with its result
    collector = GarbageCollector(functions)
    gc.callbacks.append(collector.called)
    try:
        yield
    finally:
        gc.callbacks.remove(collector.called)
        gc.set_threshold(*before)
        gc.unfreeze()
