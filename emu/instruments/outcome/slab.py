"""Finds slab growth: caches (/proc/slabinfo) with more objects after each repetition."""

from __future__ import annotations

from emu.instruments.outcome.finding import Finding, Kind, new_finding

_MAX_LINES = 10_000
MIN_OBJECTS = 2
"""Growth per repetition that is a leak, in objects; the kernel may cache one."""
MIN_GROWTH = 1024
"""Total growth that is a leak, in objects: /proc/slabinfo counts free objects of per-CPU slabs
as used. Healthy guests have shown up to 294 more after one repetition."""


def objects(slabinfo: str) -> dict[str, int]:
    """Return active objects by cache from /proc/slabinfo (version 2.1); skip other lines."""
    counts = {}
    for line in slabinfo.splitlines()[:_MAX_LINES]:
        name, _, rest = line.partition(" ")
        number = rest.split(maxsplit=1)[:1]
        if number and number[0].isdecimal() and len(number[0]) < 16:
            counts[name] = int(number[0])
    return counts


def growth(before: str, after: str, repetitions: int) -> tuple[Finding, ...]:
    """Return a finding for each cache that grew by 2 objects per repetition and by 1024 in total.

    ``before`` and ``after`` are texts of /proc/slabinfo; shrink the caches before reading. New
    caches do not count. Limits: :data:`MIN_OBJECTS`, :data:`MIN_GROWTH`.
    """
    old = objects(before)
    grown = {name: number - old[name] for name, number in objects(after).items() if name in old}
    return tuple(
        new_finding(
            Kind.LEAK,
            f"slab growth: {name}",
            "",
            [f"{name}: {number} more in {repetitions} repetitions"],
        )
        for name, number in sorted(grown.items())
        if repetitions > 0 and number >= max(MIN_OBJECTS * repetitions, MIN_GROWTH)
    )
