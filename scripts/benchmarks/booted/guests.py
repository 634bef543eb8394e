"""Guests to measure in, and the process that serves their functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import machine
from machine import Quiet

from emu.cli.shared.progress import display
from emu.guests import Guest, GuestError, GuestOptions

Samples = dict[tuple[str, str], list[float]]
"""Samples by test and side."""

_INSIDE = Path(__file__).with_name("inside")


class Base(NamedTuple):
    """Options that all guests of a run have: those of :class:`GuestOptions`."""

    suite: str
    accelerator: str = "auto"
    cpus: int = 2


@contextmanager
def booted(base: Base, **options: Any) -> Iterator[Guest]:
    """Boot a guest with these :class:`GuestOptions`; show the progress of builds."""
    with display() as (progress, on_wait):
        chosen = GuestOptions(**base._asdict(), **options)
        guest = Guest(chosen, progress=progress, on_wait=on_wait)
        guest.start()
    with guest:
        yield guest


def run_inside(guest: Guest, script: str, *words: object, timeout: float) -> Any:
    """Run a program of ``inside/`` in the guest; return the JSON that it prints."""
    program = _INSIDE.joinpath(script).read_text()
    command = ["python3", "-c", program, *map(str, words)]
    return json.loads(guest.run(command, timeout=timeout).check().stdout)


def take_turns(
    repeat: int, quiet: Quiet, takes: Mapping[tuple[str, str], Callable[[], float]]
) -> Samples:
    """Take ``repeat`` samples of each test on each side alternately."""
    samples: Samples = {key: [] for key in takes}
    for _ in range(repeat):
        for key, take in takes.items():
            samples[key].append(quiet.take(take))
    return samples


class ServerProcess:
    """Single server among our descendants, read from /proc (proc(5))."""

    def __init__(self) -> None:
        found = [pid for pid in machine.descendants() if b"\0serve\0" in _command_line(pid)]
        if len(found) != 1:
            raise GuestError(f"{len(found)} servers are running instead of one")
        self._directory = Path("/proc", str(found[0]))

    @property
    def cpu_seconds(self) -> float:
        """Processor time used, with nanosecond resolution."""
        return int((self._directory / "schedstat").read_text().split()[0]) / 1e9

    @property
    def wakeups(self) -> int:
        """Number of voluntary context switches, one for each sleep."""
        return self._status("voluntary_ctxt_switches")

    @property
    def anonymous_mib(self) -> float:
        """Private memory in MiB, without the mapped guest memory and files such as libraries."""
        return self._status("RssAnon") / 1024

    def _status(self, name: str) -> int:
        for line in (self._directory / "status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0])
        raise GuestError(f"{self._directory}/status has no {name}")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""
