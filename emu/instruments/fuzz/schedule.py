"""Chooses the next input to mutate: prefers inputs whose rarest block few runs reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

from emu.instruments.fuzz.mutate import Input

Block = tuple[str, int]
"""A kernel module and the offset of a block in its ``.text``."""

_MAX_KEPT = 64
"""Limit of the blocks that rate an input: those that were new when it was added."""


class Schedule:
    """The inputs to mutate, and the number of runs of each block."""

    def __init__(self, hits: Mapping[Block, int] | None = None) -> None:
        self.hits: Counter[Block] = Counter(hits)
        self._entries: list[tuple[Input, tuple[Block, ...]]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, blocks: Iterable[Block]) -> list[Block]:
        """Count the blocks of a run; return those that no run reached before, sorted."""
        blocks = set(blocks)
        new = sorted(block for block in blocks if block not in self.hits)
        self.hits.update(blocks)
        return new

    def add(self, entry: Input, new: Iterable[Block]) -> None:
        """Add an input with its new blocks."""
        self._entries.append((entry, tuple(new)[:_MAX_KEPT]))

    def choose(self, random: Random) -> Input:
        """Return an input, weighted by 1 / (runs that reached its rarest block).

        Raises IndexError if there are none.
        """
        weights = [
            1 / max(1, min((self.hits[block] for block in new), default=self._unseen_hits()))
            for _, new in self._entries
        ]
        return random.choices([entry for entry, _ in self._entries], weights)[0]

    def _unseen_hits(self) -> int:
        return max(self.hits.values(), default=1) + 1
