"""BAR accesses of a guest, through QEMU, served by each transport alternately."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from figures import Row, Section, ratio_at_most
from machine import Quiet

from booted import guests
from booted.guests import Base
from emu.server.vfio.base import TransportError
from emu.server.vfio.kinds import DEFAULT_KIND, make_transport

BOOTS = 3
ROUNDS = 5
COUNT = 10_000
OTHER_KIND = "libvfio-user"
TIMEOUT = 120.0
NOT_SLOWER = ratio_at_most(1.0)

MEASURES = {
    "read": "4-byte read, round trip",
    "posted": "posted 8-byte write, for the guest",
    "done": "posted 8-byte write, until the device has done it",
}


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Boot a guest with each transport in turn; report the reason when a transport is skipped."""
    missing = why_missing(OTHER_KIND)
    kinds = [DEFAULT_KIND] if missing else [DEFAULT_KIND, OTHER_KIND]
    samples: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in MEASURES} for kind in kinds
    }
    for _ in range(repeat or BOOTS):
        for kind in kinds:
            rounds = one_boot(base, kind, quiet)
            for name in MEASURES:
                samples[kind][name].append(statistics.median(taken[name] for taken in rounds))
    ours, theirs = samples[DEFAULT_KIND], samples.get(OTHER_KIND, {})
    rows = [
        Row(text, "us", ours[name], theirs.get(name, ()), NOT_SLOWER)
        for name, text in MEASURES.items()
    ]
    remarks = [f"{OTHER_KIND} is left out: {missing}."] if missing else []
    title = "MMIO of a guest, through QEMU"
    return [Section("mmio", title, rows, f"own ({DEFAULT_KIND})", OTHER_KIND, remarks)]


def one_boot(base: Base, kind: str, quiet: Quiet) -> list[dict[str, float]]:
    """Return the numbers of each round in one guest."""
    options = ("--transport", kind)
    with guests.booted(base, probe=False, server_options=options) as guest:

        def one_round() -> dict[str, float]:
            taken: dict[str, float] = guests.run_inside(guest, "mmio.py", COUNT, timeout=TIMEOUT)
            return taken

        return [quiet.take(one_round) for _ in range(ROUNDS)]


def why_missing(kind: str) -> str:
    """Return the reason why a transport cannot be used here; empty when it can."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            make_transport(kind, Path(directory, "socket"))
        except TransportError as error:
            return str(error)
    return ""
