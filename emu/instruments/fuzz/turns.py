"""Carries out turns in a guest: bind the driver, work, unbind, reset.

Live turns keep the driver bound while there are no failures. An emulated guest runs a shell script,
and QEMU records translated blocks. A User-Mode Linux guest has one program
(:mod:`emu.instruments.coverage.inside.turns`) for all turns, which counts by KCOV.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from emu.guests import Guest
from emu.guests.channel import frames
from emu.guests.errors import CommandTimeoutError, GuestError, LabError
from emu.instruments.coverage import inside
from emu.instruments.fuzz.workloads import INSTALL, MARK, WORKLOADS, program

_INSTALL_SECONDS = 300.0
_RESET_SECONDS = 60.0
_PROGRAM_RESET_SECONDS = 8.0
"""The same in a User-Mode Linux guest, which reboots in seconds."""
_POLL_SECONDS = 0.5
_MAX_IDLE_SECONDS = 1.5
_IDLE_FRACTION = 0.05
"""Fraction of a processor that a waiting guest uses for its timers."""
_MAX_BYTES = 64 << 20
_MAX_TURNS = 100
"""Number of live turns before a reset, as their side effects add up."""
_MAX_COMPLAINTS = 10
"""Number of live turns with a warning of the driver before a reset."""
_GIVEN_UP = re.compile(r"health|recover|fatal|bad device|timeout|leak|teardown", re.IGNORECASE)
"""Warnings after which the driver no longer works normally with the function."""


class Turns(Protocol):
    """Interface of a running guest to the executor. All methods raise GuestError."""

    def install(self) -> None:
        """Load the modules without probing."""

    def begin(self, workload: str) -> bool:
        """Prepare the functions for a turn; return False if that fails."""

    def spoil(self) -> None:
        """Require a reset before the next turn."""

    def run(self, workload: str, seconds: float) -> str:
        """Carry out a turn; return the kernel's log. Raises CommandTimeoutError."""


class ShellTurns:
    """Turns by a shell script in the guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def install(self) -> None:
        """Implement :meth:`Turns.install`."""
        self._guest.run(INSTALL, stdin=program().encode(), timeout=_INSTALL_SECONDS).check()

    def begin(self, workload: str) -> bool:
        """Reset the functions; return whether that worked. Raises LabError for a live workload."""
        if WORKLOADS[workload].is_live:
            raise LabError(f"{workload}: live workloads need User-Mode Linux (mlx5emu guide uml)")
        return self._guest.run(["fuzz-turn", "reset"], timeout=_RESET_SECONDS).status == 0

    def spoil(self) -> None:
        """Do nothing, as each turn begins with a reset."""

    def run(self, workload: str, seconds: float) -> str:
        """Implement :meth:`Turns.run`."""
        return self._guest.run(["fuzz-turn", "run", workload], timeout=seconds).stdout


class _Idleness:
    """Measures idle time of a User-Mode Linux guest by its processor time, not by wall-clock
    time.
    """

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._since = self._measured = time.monotonic()
        self._work = guest.work_seconds

    def seconds(self) -> float:
        """Return the seconds for which the guest has been idle; 0 if the host has no data.

        Call it regularly: each call measures the interval since the last one.
        """
        now, work = time.monotonic(), self._guest.work_seconds
        if work is None or self._work is None:
            return 0.0
        if work - self._work > _IDLE_FRACTION * (now - self._measured):
            self._since = now
        self._measured, self._work = now, work
        return now - self._since


class ProgramTurns:
    """Turns by one program in the guest: one line to it, one line back."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._said = bytearray()
        self._complained = bytearray()
        self._news = threading.Event()
        words = ["python3", "-I", "-S", "-c", inside.program("ptrace", "kcov", "live", "turns")]
        self._job = guest.popen(words, has_input=True, sink=self._take)
        self._places: list[int] = []
        self._is_bound = False
        """Whether all functions are bound for more live turns."""
        self._turns = self._complaints = 0

    def install(self) -> None:
        """Implement :meth:`Turns.install`."""
        self._answer("loading the driver", _INSTALL_SECONDS)

    def begin(self, workload: str) -> bool:
        """Reset the functions; for a live workload, bind them. Return False if either fails.

        Bound functions stay in use for up to 100 live turns without :meth:`spoil`.
        """
        is_live = WORKLOADS[workload].is_live
        if is_live and self._is_bound and self._turns < _MAX_TURNS:
            return True
        self._is_bound, self._turns, self._complaints = False, 0, 0
        if not self._ask({"reset": True}, "reset", _PROGRAM_RESET_SECONDS).get("done"):
            return False
        if is_live and not self._ask({"bind": True}, "bind", _PROGRAM_RESET_SECONDS).get("done"):
            return False
        self._is_bound = is_live
        return True

    def spoil(self) -> None:
        """Implement :meth:`Turns.spoil`."""
        self._is_bound = False

    def run(self, workload: str, seconds: float) -> str:
        """Carry out a turn and return the kernel's log; keep its blocks for :meth:`executed`.

        Warnings of the driver may require a reset before the next turn. Raises CommandTimeoutError
        after ``seconds``, or for a live workload when the guest is idle, and GuestError for an
        invalid answer.
        """
        self._places = []
        one = WORKLOADS[workload]
        asked: dict[str, Any] = {
            "mark": f"{MARK} {workload}", "live" if one.is_live else "run": one.script,
            "class": one.pci_class, "count": one.functions,
        }  # fmt: skip
        idle = _Idleness(self._guest) if one.is_live else None
        answer = self._ask(asked, workload, seconds, idle)
        self._turns += 1
        said = str(answer.get("said", ""))
        if not answer.get("calm"):
            self._complaints += 1
            if self._complaints >= _MAX_COMPLAINTS or _GIVEN_UP.search(said):
                self.spoil()
        try:
            self._places = [int(place) for place in answer.get("places", ())]
        except (TypeError, ValueError, OverflowError):
            raise GuestError(f"{workload}: the guest's program sent invalid addresses") from None
        return said

    def executed(self) -> list[tuple[int, int]]:
        """Return address and length of each block of the last turn, like QEMU's."""
        return [(place, 1) for place in self._places]

    def clear(self) -> None:
        """Discard the executed blocks."""
        self._places = []

    def close(self) -> None:
        """Do nothing, as the program ends with the guest."""

    def _ask(
        self, what: Mapping[str, Any], name: str, seconds: float, idle: _Idleness | None = None
    ) -> dict[str, Any]:
        """Send one line to the program and return its answer, as :meth:`_answer` does."""
        self._said.clear()
        self._job.write(json.dumps(what).encode() + b"\n")
        return self._answer(name, seconds, idle)

    def _answer(self, name: str, seconds: float, idle: _Idleness | None = None) -> dict[str, Any]:
        """Wait for the program's next line and return the object in it.

        Raises CommandTimeoutError after ``seconds``, or after 1.5 s of ``idle``. Raises GuestError
        when the program ends, reports an error or sends an invalid answer.
        """
        deadline = time.monotonic() + seconds
        while not self._said.endswith(b"\n"):
            self._news.clear()
            if self._job.status is not None or self._job.failure is not None:
                self._guest.wait(self._job)
                said = self._complained.decode(errors="replace").strip().splitlines()
                raise GuestError(f"{name}: the guest's program ended: {said[-1:]}")
            if time.monotonic() > deadline:
                raise CommandTimeoutError(f"{name}: not done after {seconds:g} s", b"", b"")
            if idle is not None and idle.seconds() > _MAX_IDLE_SECONDS:
                why = f"{name}: the guest was idle for {_MAX_IDLE_SECONDS:g} s"
                raise CommandTimeoutError(why, b"", b"")
            if not self._said.endswith(b"\n"):
                self._news.wait(_POLL_SECONDS)
        try:
            answer = json.loads(self._said.splitlines()[-1])
        except (ValueError, IndexError, RecursionError):
            answer = None
        self._said.clear()
        if not isinstance(answer, dict):
            raise GuestError(f"{name}: the guest's program sent an invalid answer")
        if "error" in answer:
            raise GuestError(str(answer["error"]))
        return answer

    def _take(self, kind: int, data: bytes) -> None:
        """Add the program's output or complaints; raise GuestError above 64 MiB."""
        into = self._said if kind == frames.STDOUT else self._complained
        if len(into) + len(data) > _MAX_BYTES:
            raise GuestError(f"the guest's program sent more than {_MAX_BYTES >> 20} MiB")
        into += data
        self._news.set()
