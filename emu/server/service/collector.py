"""Keeps Python's garbage collector from long collections in the middle of a round.

Reference counting frees most of the device's objects. The collector frees reference cycles, and to
find them it visits every live object: with a million memory keys that takes a second, at any time,
and the modules alone, with the structures that they declare, take 50 ms. Here it visits only new
objects: what the modules have made is frozen (:func:`gc.freeze`), and the collection of the oldest
generation does not come by itself. A function's reset leaves all its old objects behind; after
that, all but the modules' are visited once, as soon as few objects are left.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from emu.device.function.function import Function

FEW = 5000
"""Number of device objects up to which a collection of all of them is short enough."""

_OLDEST = 2
"""The generation whose collection visits everything that is not frozen."""
_NEVER = (1 << 31) - 1
"""Collections of the generation before, after which it would come."""


class GarbageCollector:
    """Controls Python's garbage collector for the functions of one server."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._restarts = 0
        self._young, self._middle, _ = gc.get_threshold()
        self.look_at(new=True)

    def look_at(self, *, new: bool) -> None:
        """Have the next collections be of new objects alone, or of all."""
        gc.set_threshold(self._young, self._middle, _NEVER if new else 0)

    def called(self, phase: str, info: Mapping[str, object]) -> None:
        """Called when a collection begins or ends (:data:`gc.callbacks`)."""
        if phase != "stop":
            return
        restarts = sum(function.restarts for function in self._functions)
        if restarts == self._restarts:
            return
        if info["generation"] == _OLDEST:
            self._restarts = restarts
            self.look_at(new=True)
        elif self._live() <= FEW:
            self.look_at(new=False)

    def _live(self) -> int:
        return sum(
            len(function.deferred_free) + sum(map(len, function.hca.tables))
            for function in self._functions
        )


@contextmanager
def short_collections(functions: Sequence[Function]) -> Iterator[None]:
    """Keep collections short while in the context.

    What there is at its beginning is never looked at. So the functions come later: the list of
    them may be empty still.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.collect()  # of nothing: CPython compares with what the last one has left
    collector = GarbageCollector(functions)
    gc.callbacks.append(collector.called)
    try:
        yield
    finally:
        gc.callbacks.remove(collector.called)
        gc.set_threshold(*before)
        gc.unfreeze()
