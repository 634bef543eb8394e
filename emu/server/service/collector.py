"""Keeps Python's garbage collector from long collections in the middle of a round.

Reference counting frees most of the device's objects. The collector frees reference cycles, and to
find them it visits every live object: with a million memory keys that takes a second, at any time.
Here it visits only new objects, because survivors are frozen (:func:`gc.freeze`). A function's
reset leaves all its old objects behind; after that the collector visits everything once, as soon as
few objects are left.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from emu.device.function.function import Function

FEW = 5000
"""Number of device objects up to which a full collection is short enough."""

_OLDEST = 2
"""The generation whose collection visits everything that is not frozen."""


class GarbageCollector:
    """Controls Python's garbage collector for the functions of one server."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._restarts = 0

    def called(self, phase: str, info: Mapping[str, object]) -> None:
        """Called when a collection begins or ends (:data:`gc.callbacks`)."""
        if info["generation"] != _OLDEST:
            return
        if phase == "stop":
            gc.freeze()
            return
        restarts = sum(function.restarts for function in self._functions)
        if restarts != self._restarts and self._live() <= FEW:
            self._restarts = restarts
            gc.unfreeze()

    def _live(self) -> int:
        return sum(
            len(function.remains) + sum(map(len, function.hca.tables))
            for function in self._functions
        )


@contextmanager
def short_collections(functions: Sequence[Function]) -> Iterator[None]:
    """Keep collections short while in the context."""
    collector = GarbageCollector(functions)
    gc.collect()
    gc.freeze()
    gc.callbacks.append(collector.called)
    try:
        yield
    finally:
        gc.callbacks.remove(collector.called)
        gc.unfreeze()
