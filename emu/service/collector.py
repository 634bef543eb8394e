"""Python's garbage collector, kept from looking at everything there is in the middle of a round.

What the device makes goes away when nothing refers to it any more. The collector is for what refers
to itself, and to find it, it visits every object that lives: with a million memory keys that takes
a second, whenever it pleases. Here it visits the new ones: what has survived is set aside. After
the reset of a function, which leaves the old one behind as a whole, it looks at everything once,
as soon as there is little of it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from emu.function.function import Function

FEW = 5000
"""Objects of the device among which everything can be looked at."""

_OLDEST = 2
"""The generation whose collection visits everything that has not been set aside."""


class Collector:
    """Stands beside Python's collector, for the functions of one server."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions
        self._restarts = 0

    def called(self, phase: str, info: Mapping[str, Any]) -> None:
        """A collection begins or ends (:data:`gc.callbacks`)."""
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
    """While inside, no collection takes long."""
    collector = Collector(functions)
    gc.collect()
    gc.freeze()
    gc.callbacks.append(collector.called)
    try:
        yield
    finally:
        gc.callbacks.remove(collector.called)
        gc.unfreeze()
