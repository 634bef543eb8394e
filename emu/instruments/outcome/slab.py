"""Slab growth: caches that have more objects after each turn of the same work (/proc/slabinfo)."""

from __future__ import annotations

from emu.instruments.outcome.finding import Finding, Kind, made

_MAX_LINES = 10_000
MIN_OBJECTS = 2
"""Objects that each turn has to leave for a leak; one may be what the kernel keeps for later."""
MIN_GROWTH = 1024
"""Objects by which a cache has to grow at all: /proc/slabinfo counts what processors keep free as
used; healthy guests have shown up to 294 more after one turn."""


def objects(slabinfo: str) -> dict[str, int]:
    """Active objects by cache, of a text of /proc/slabinfo (version 2.1); other lines are left."""
    counts = {}
    for line in slabinfo.splitlines()[:_MAX_LINES]:
        name, _, rest = line.partition(" ")
        number = rest.split(maxsplit=1)[:1]
        if number and number[0].isdecimal() and len(number[0]) < 16:
            counts[name] = int(number[0])
    return counts


def growth(before: str, after: str, turns: int) -> tuple[Finding, ...]:
    """Caches that have grown by :data:`MIN_OBJECTS` in each of so many turns, and noticeably.

    ``before`` and ``after`` are texts of /proc/slabinfo; unused slabs should have been shrunk.
    """
    old = objects(before)
    grown = {name: number - old[name] for name, number in objects(after).items() if name in old}
    return tuple(
        made(Kind.LEAK, f"slab growth: {name}", "", [f"{name}: {number} more in {turns} turns"])
        for name, number in sorted(grown.items())
        if turns > 0 and number >= max(MIN_OBJECTS * turns, MIN_GROWTH)
    )
