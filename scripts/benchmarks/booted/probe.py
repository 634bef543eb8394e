"""Duration of the driver's probe, and the resources of an idle server."""

from __future__ import annotations

import time

from figures import Goal, Row, Section
from machine import Quiet

from booted import guests
from booted.guests import Base, ServerProcess
from emu.guests import Guest

ROUNDS = 5
IDLE_SECONDS = 10
TIMEOUT = 180.0
MODELS = {"connectx6-vf": ("VF", Goal(1.0)), "connectx6": ("PF", Goal(2.5))}
IDLE_CPU_PERCENT = Goal(0.5)
"""Limit for the driver's health poll, five reads every two seconds."""
MEMORY_MIB = Goal(80)


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Boot once for a VF and once for a PF; return their sections."""
    rows, mkeys = [], 0.0
    for model, (name, goal) in MODELS.items():
        with guests.booted(base, devices=(model,), probe=False) as guest:
            samples = rounds(guest, repeat or ROUNDS, quiet)
            rows += probe_rows(name, samples, goal) + idle_rows(name, ServerProcess())
        mkeys = max(mkeys, *samples["mkeys"])
    remarks = [
        "From `modprobe mlx5_ib` to the port being ACTIVE, less what the same modprobe takes when"
        f" the driver finds no function. A PF's driver then fills a cache of {mkeys:,.0f} memory"
        " keys. Memory is RssAnon: the guest's memory, which the server maps, is not in it.",
    ]
    return [Section("probe", "Probe, and the idle server", rows, remarks=remarks)]


def rounds(guest: Guest, count: int, quiet: Quiet) -> dict[str, list[float]]:
    """Run ``inside/probe.py`` ``count`` times, after the modules have been read from disk."""

    def one_round() -> dict[str, float]:
        taken: dict[str, float] = guests.run_inside(guest, "probe.py", timeout=TIMEOUT)
        return taken

    one_round()
    taken = [quiet.take(one_round) for _ in range(count)]
    return {name: [one[name] for one in taken] for name in taken[0]}


def probe_rows(name: str, samples: dict[str, list[float]], goal: Goal) -> list[Row]:
    """Return the rows of a probe.

    In each round, the time of modprobe without a function is subtracted from that with one.
    """
    without = samples["without"]
    active = [total - base for total, base in zip(samples["with"], without)]
    rows = [Row(f"{name}: probe until the port is ACTIVE", "s", active, goal=goal)]
    if any(samples["mkeys"]):
        filled = [total - base for total, base in zip(samples["filled"], without)]
        rows.append(Row(f"{name}: probe until the cache of memory keys is full", "s", filled))
    return [*rows, Row(f"{name}: modprobe without a function", "s", without)]


def idle_rows(name: str, server: ServerProcess) -> list[Row]:
    """Return the server's use of resources while the guest's driver is loaded and idle."""
    cpu, wakeups = server.cpu_seconds, server.wakeups
    time.sleep(IDLE_SECONDS)
    cpu, wakeups = server.cpu_seconds - cpu, server.wakeups - wakeups
    percent = 100 * cpu / IDLE_SECONDS
    return [
        Row(f"{name}: idle server, processor", "%", [percent], goal=IDLE_CPU_PERCENT),
        Row(f"{name}: idle server, wake-ups", "1/s", [wakeups / IDLE_SECONDS]),
        Row(f"{name}: server's memory", "MiB", [server.anonymous_mib], goal=MEMORY_MIB),
    ]
