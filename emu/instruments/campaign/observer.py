"""Observes a run's command: time, output, objects left in the device, threads that do not end."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from emu.guests import Guest, GuestError
from emu.guests.channel import frames
from emu.host.printable import one_line, printable
from emu.instruments.campaign.description import MAX_ERRORS, MAX_THREADS, MAX_WAITING, Observed
from emu.instruments.outcome import settled
from emu.server.control import Client
from emu.server.control.client import ControlError
from emu.server.control.prometheus import function_label

_MARK = {"MLX5EMU_OBSERVED": "1"}
"""Environment of the command, by which its processes are found."""
_READ_SECONDS = 30.0
_MAX_OBJECTS = 1000
_USER_CONTEXT = "user context"
"""Kind of the objects that each process with an open device has."""
_SERVICES = frozenset({"RC", "UC", "UD", "XRC", "DCI", "DCT"})
"""Transport services of users; others are the driver's own queue pairs."""
THREADS = """
import os, sys

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(65536)
    except OSError:
        return b""

def names(path):
    try:
        return sorted(int(name) for name in os.listdir(path) if name.isdigit())
    except OSError:  # the process has ended
        return []

def text(path):
    return read(path).replace(b"\\0", b" ").decode(errors="replace").strip()

for pid in names("/proc"):
    if sys.argv[1].encode() not in read(f"/proc/{pid}/environ").split(b"\\0"):
        continue
    print(f"process {pid}: {text(f'/proc/{pid}/cmdline')[:200]}")
    for tid in names(f"/proc/{pid}/task")[:64]:
        task = f"/proc/{pid}/task/{tid}"
        state = text(f"{task}/stat").rpartition(")")[2].split()[:1] or ["?"]
        wchan = text(f"{task}/wchan")
        place = f", waits in {wchan}" if wchan not in ("", "0") else ""
        print(f"  thread {tid} {text(f'{task}/comm')}: state {state[0]}{place}")
        for line in text(f"{task}/stack").splitlines()[:24]:
            print(f"    {line.partition('] ')[2].strip()}")
"""
"""Python program: prints processes with an environment setting, and the stacks of their threads."""


class Observer:
    """The observations of one command; :meth:`begin` comes before its start."""

    def __init__(self, guest: Guest) -> None:
        """Count the objects of the guest's functions; a later plan cannot change this count."""
        self._guest = guest
        self._digest = hashlib.sha256()
        self._before = self._census()
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._errors = b""
        self._left: dict[str, int] = {}
        self._packets = 0
        self._has_timed_out = False
        self._threads = ""
        self._waiting: tuple[str, ...] = ()

    def begin(self) -> Mapping[str, str]:
        """Start the clock and return the environment that the command needs."""
        self._began = time.monotonic()
        return _MARK

    def take(self, kind: int, data: bytes) -> None:
        """Add standard output to the digest; keep the end of standard error."""
        if kind == frames.STDOUT:
            self._digest.update(data)
        else:
            self._errors = (self._errors + data)[-MAX_ERRORS:]

    def note_timeout(self) -> None:
        """Record threads and queues of a command that still runs; a lost guest records none."""
        self._seconds = time.monotonic() - self._began
        self._has_timed_out = True
        self._note_processes()

    def note_end(self) -> None:
        """Record the duration of a command that has ended, and the objects that it left.

        Its processes that still run and hold objects are recorded as at a timeout.
        """
        self._seconds = time.monotonic() - self._began
        with contextlib.suppress(ControlError):
            after = self._census()
            more = {kind: count - self._before.get(kind, 0) for kind, count in after.items()}
            self._left = {kind: count for kind, count in sorted(more.items()) if count > 0}
            with self._control() as control:
                self._packets = link_packets(control)
        if _USER_CONTEXT in self._left:
            self._note_processes()

    def _note_processes(self) -> None:
        """Record the command's processes, their threads, and the queues of all processes."""
        with contextlib.suppress(ControlError), self._control() as control:
            self._waiting = tuple(_queues(control))[:MAX_WAITING]
            self._packets = link_packets(control)
        (setting,) = (f"{name}={value}" for name, value in _MARK.items())
        words = ["python3", "-c", THREADS, setting]
        with contextlib.suppress(GuestError):
            said = self._guest.run(words, timeout=_READ_SECONDS).stdout
            self._threads = printable(said[:MAX_THREADS])[:MAX_THREADS]

    def observed(self) -> Observed:
        """Return the observations so far; of a lost guest, the time until now."""
        seconds = time.monotonic() - self._began if self._seconds is None else self._seconds
        return Observed(
            seconds=round(seconds, 3),
            has_timed_out=self._has_timed_out,
            digest=self._digest.hexdigest(),
            errors=printable(self._errors.decode(errors="replace")),
            left=self._left,
            is_emulated=self._guest.is_emulated,
            link_packets=self._packets,
            threads=self._threads,
            waiting=self._waiting,
        )

    def _control(self) -> Client:
        return Client(self._guest.control_socket)

    def _census(self) -> dict[str, int]:
        with self._control() as control:
            return settled(control)


def link_packets(control: Client) -> int:
    """Return the number of packets that passed links with properties."""
    return sum(link["counts"].get("packets", 0) for link in control.links() if link["properties"])


def _queues(control: Client) -> Iterator[str]:
    """Yield the users' queue pairs, the page faults that wait for the driver, and the CQs."""
    for function in control.objects(limit=_MAX_OBJECTS)["functions"]:
        objects = function["objects"]
        place = f"function {function_label(function)}"
        for one in _of_kind(objects, "qp"):
            if one.get("service") in _SERVICES:
                words = f"{one['service']}, {one['state']}, peer {one['remote_qpn']:#x}"
                yield one_line(f"{place}: queue pair {one['handle']:#x}, {words}")
        for one in _of_kind(objects, "page fault"):
            yield one_line(f"{place}: queue pair {one['qpn']:#x} waits for a page, {one['kind']}")
        for one in _of_kind(objects, "cq"):
            yield one_line(
                f"{place}: completion queue {one['handle']:#x}, {one['pi']} completions,"
                f" {one['notification']}"
            )


def _of_kind(objects: Any, kind: str) -> list[dict[str, Any]]:
    return list(objects.get(kind, {"items": ()})["items"])
