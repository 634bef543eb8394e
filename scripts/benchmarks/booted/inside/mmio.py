"""Measures, in the guest, accesses to BAR 0 of the first mlx5 function; prints JSON.

    mmio.py COUNT

Microseconds per access: a 4-byte read, a posted 8-byte write as the guest sees it, and a write
until the device has executed it, which a read after the last write shows. The time of the same loop
on ordinary memory is subtracted. No driver may be bound.
"""

from __future__ import annotations

import json
import mmap
import sys
import time
from itertools import repeat
from pathlib import Path

MAPPED = 0x2000
HEALTH_COUNTER = 0x1010 // 4
UNUSED = 0x1800 // 8  # in the initialization segment, read-only: a write is dropped and not logged
WARM_UP = 1000  # QEMU has translated the guest's code after these


def find_function() -> Path:
    for device in Path("/sys/bus/pci/devices").iterdir():
        if (device / "vendor").read_text().strip() == "0x15b3":
            return device
    sys.exit("there is no mlx5 function")


def reads(words: memoryview, count: int) -> int:
    start = time.perf_counter_ns()
    for _ in repeat(None, count):
        words[HEALTH_COUNTER]
    return time.perf_counter_ns() - start


def writes(quads: memoryview, words: memoryview, count: int) -> tuple[int, int]:
    """Return the times until the last write has been sent, and until it has been executed."""
    start = time.perf_counter_ns()
    for _ in repeat(None, count):
        quads[UNUSED] = 0
    sent = time.perf_counter_ns()
    words[HEALTH_COUNTER]
    return sent - start, time.perf_counter_ns() - start


def measure(area: memoryview, count: int) -> tuple[int, int, int]:
    return reads(area.cast("I"), count), *writes(area.cast("Q"), area.cast("I"), count)


def main() -> None:
    count = int(sys.argv[1])
    device = find_function()
    (device / "enable").write_text("1")
    with (device / "resource0").open("r+b", buffering=0) as resource:
        bar = memoryview(mmap.mmap(resource.fileno(), MAPPED))
    memory = memoryview(mmap.mmap(-1, MAPPED))
    for area in bar, memory:
        measure(area, WARM_UP)
    spent = zip(("read", "posted", "done"), measure(bar, count), measure(memory, count))
    print(json.dumps({name: (there - loop) / count / 1000 for name, there, loop in spent}))


main()
