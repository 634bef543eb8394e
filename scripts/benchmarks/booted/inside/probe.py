"""Measures, in the guest, ``modprobe mlx5_ib`` with and without a function; prints JSON.

Seconds: ``with`` until the port is ACTIVE, ``without`` with the driver core kept from binding
functions, ``filled`` until the driver's cache of memory keys is full, and ``mkeys``, the number
of those keys. The function keeps its driver.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

AUTOPROBE = Path("/sys/bus/pci/drivers_autoprobe")
DEVICES = Path("/sys/class/infiniband")
STEP = 0.001
LIMIT = 60


def modprobe(*words: str) -> None:
    subprocess.run(["modprobe", *words], check=True)


def port_is_active() -> bool:
    return any("ACTIVE" in state.read_text() for state in DEVICES.glob("*/ports/1/state"))


def caches() -> Iterator[tuple[int, int]]:
    """Yield (keys, wanted keys) of each size in the cache.

    Source: hw/mlx5/mr.c: queue_adjust_cache_locked.
    """
    for limit in Path("/sys/kernel/debug/mlx5").glob("*/mr_cache/*/limit"):
        yield int((limit.parent / "cur").read_text()), 2 * int(limit.read_text())


def cache_is_full() -> bool:
    return all(keys >= wanted for keys, wanted in caches())


def wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > limit:
            sys.exit(f"no {condition.__name__} in {LIMIT} s")
        time.sleep(STEP)


def load_unbound() -> float:
    AUTOPROBE.write_text("0")
    start = time.perf_counter()
    modprobe("mlx5_ib")
    spent = time.perf_counter() - start
    modprobe("-r", "mlx5_ib")
    AUTOPROBE.write_text("1")
    return spent


def main() -> None:
    modprobe("-r", "mlx5_ib")
    without = load_unbound()
    start = time.perf_counter()
    modprobe("mlx5_ib")
    wait(port_is_active)
    active = time.perf_counter() - start
    wait(cache_is_full)
    filled = time.perf_counter() - start
    mkeys = sum(keys for keys, _ in caches())
    print(json.dumps({"without": without, "with": active, "filled": filled, "mkeys": mkeys}))


main()
