"""How a guest is made to carry out a turn: bind the driver, work, unbind; and then a reset.

Live turns work with a driver that stays bound, as long as nothing has gone wrong.
An emulated guest runs a shell script, and QEMU tells which blocks it has translated. A User-Mode
Linux guest has a program of ours that goes on from turn to turn, and counts by KCOV.
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
"""The same in a guest that is there again in seconds."""
_LOOK_SECONDS = 0.5
_MAX_IDLE_SECONDS = 1.5
_IDLE_SHARE = 0.05
"""Of a processor: what a guest whose driver waits for the device takes for its timers."""
_MAX_BYTES = 64 << 20
_MAX_TURNS = 100
"""Live turns with a driver that stays bound; what they leave behind adds up."""
_MAX_COMPLAINTS = 10
"""Live turns with a warning of the driver's, after which it is bound again."""
_GIVEN_UP = re.compile(r"health|recover|fatal|bad device|timeout|leak|teardown", re.IGNORECASE)
"""In a warning: the driver no longer works with the function as it did."""


class Turns(Protocol):
    """What the executor needs of a guest that is up. Everything raises GuestError."""

    def install(self) -> None:
        """Load the modules, without probing."""

    def begin(self, workload: str) -> bool:
        """Bring the functions to where its turns begin; False when that cannot be."""

    def spoil(self) -> None:
        """What the last turn has left is not where another begins."""

    def run(self, workload: str, seconds: float) -> str:
        """Carry out a turn; what the kernel has logged. Raises CommandTimeoutError."""


class ShellTurns:
    """By a shell script in the guest."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def install(self) -> None:
        """As :meth:`Turns.install`."""
        self._guest.run(INSTALL, stdin=program().encode(), timeout=_INSTALL_SECONDS).check()

    def begin(self, workload: str) -> bool:
        """As :meth:`Turns.begin`."""
        if WORKLOADS[workload].is_live:
            raise LabError(f"{workload}: only in User-Mode Linux the driver stays bound")
        return self._guest.run(["fuzz-turn", "reset"], timeout=_RESET_SECONDS).status == 0

    def spoil(self) -> None:
        """Each turn begins with a reset."""

    def run(self, workload: str, seconds: float) -> str:
        """As :meth:`Turns.run`."""
        return self._guest.run(["fuzz-turn", "run", workload], timeout=seconds).stdout


class _Idleness:
    """How long a User-Mode Linux guest has done nothing; a busy host is no reason to say so."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._since = self._looked = time.monotonic()
        self._work = guest.work_seconds

    def seconds(self) -> float:
        """Seconds; 0 where the host does not tell. To be asked now and then."""
        now, work = time.monotonic(), self._guest.work_seconds
        if work is None or self._work is None:
            return 0.0
        if work - self._work > _IDLE_SHARE * (now - self._looked):
            self._since = now
        self._looked, self._work = now, work
        return now - self._since


class ProgramTurns:
    """By a program in the guest that goes on: a line to it, a line back."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._said = bytearray()
        self._complained = bytearray()
        self._news = threading.Event()
        words = ["python3", "-I", "-S", "-c", inside.program("ptrace", "kcov", "live", "turns")]
        self._job = guest.popen(words, has_input=True, sink=self._take)
        self._places: list[int] = []
        self._is_bound = False
        """Whether live turns go on with the functions, all of which are bound then."""
        self._turns = self._complaints = 0

    def install(self) -> None:
        """As :meth:`Turns.install`."""
        self._answer("loading the driver", _INSTALL_SECONDS)

    def begin(self, workload: str) -> bool:
        """As :meth:`Turns.begin`."""
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
        """As :meth:`Turns.spoil`."""
        self._is_bound = False

    def run(self, workload: str, seconds: float) -> str:
        """As :meth:`Turns.run`."""
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
            raise GuestError(f"{workload}: the guest's program told no places") from None
        return said

    def executed(self) -> list[tuple[int, int]]:
        """Address and length of each block of the last turn, as of QEMU's."""
        return [(place, 1) for place in self._places]

    def clear(self) -> None:
        """Nothing has run."""
        self._places = []

    def close(self) -> None:
        """It ends with the guest."""

    def _ask(
        self, what: Mapping[str, Any], name: str, seconds: float, idle: _Idleness | None = None
    ) -> dict[str, Any]:
        self._said.clear()
        self._job.write(json.dumps(what).encode() + b"\n")
        return self._answer(name, seconds, idle)

    def _answer(self, name: str, seconds: float, idle: _Idleness | None = None) -> dict[str, Any]:
        """The next line, or why there is none. With ``idle`` a guest that waits is given up."""
        deadline = time.monotonic() + seconds
        while not self._said.endswith(b"\n"):
            self._news.clear()
            if self._job.status is not None or self._job.failure is not None:
                self._guest.wait(self._job)
                said = self._complained.decode(errors="replace").strip().splitlines()
                raise GuestError(f"{name}: the guest's program has ended: {said[-1:]}")
            if time.monotonic() > deadline:
                raise CommandTimeoutError(f"{name}: not done after {seconds:g} s", b"", b"")
            if idle is not None and idle.seconds() > _MAX_IDLE_SECONDS:
                why = f"{name}: it has waited for {_MAX_IDLE_SECONDS:g} s"
                raise CommandTimeoutError(why, b"", b"")
            if not self._said.endswith(b"\n"):
                self._news.wait(_LOOK_SECONDS)
        try:
            answer = json.loads(self._said.splitlines()[-1])
        except (ValueError, IndexError, RecursionError):
            answer = None
        self._said.clear()
        if not isinstance(answer, dict):
            raise GuestError(f"{name}: the guest's program said what is no answer")
        if "error" in answer:
            raise GuestError(str(answer["error"]))
        return answer

    def _take(self, kind: int, data: bytes) -> None:
        into = self._said if kind == frames.STDOUT else self._complained
        if len(into) + len(data) > _MAX_BYTES:
            raise GuestError("the guest's program says too much")
        into += data
        self._news.set()
