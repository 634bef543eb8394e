"""Reproduces the plans of examples/findings as their ``[expect]`` says.

The effect of overwritten memory varies between runs, so a plan is tried in new guests until its
finding appears.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emu.device.faults.plan import LOADING, Expectation, Plan
from emu.guests import Guest, GuestOptions
from emu.guests.errors import GuestError
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.instruments.fuzz.traffic import is_ethernet, with_traffic
from emu.instruments.outcome import Finding, Kind, findings
from emu.server.control import Client
from emu.server.service.plan_files import read_plan

TRIALS: Final = 3
_MAX_PLAN: Final = 1 << 20
_LOAD: Final = "modprobe mlx5_ib"
_LOAD_SECONDS: Final = 120.0
_RUN_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.3


@dataclass(frozen=True)
class Trial:
    """The result of a plan in one guest."""

    log: str
    """The kernel's log."""
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    """The plan's expressions that match no line of the log."""

    @property
    def is_reproduced(self) -> bool:
        """Whether the plan's finding appeared."""
        return bool(self.findings) and not self.missing


def reproduce(
    path: Path,
    options: GuestOptions,
    say: Callable[[str], object],
    devices: Sequence[str] = (),
    trials: int = TRIALS,
) -> Trial:
    """Carry out a plan until its finding appears, up to ``trials`` times; return the last trial.

    Each trial boots a new guest with ``devices``, or the functions that the plan names. ``say`` is
    called for each trial without the finding. Raises UserError for a plan without dmesg in
    [expect], and LabError if no guest boots.
    """
    plan = read_plan(path)
    expect = _expectation(path, plan)
    functions = (expect.model,) * (2 if is_ethernet(expect.model) else 1)
    requested = dataclasses.replace(
        options, devices=tuple(devices) or functions, probe=expect.when != LOADING
    )
    text = read_infile(path, _MAX_PLAN).decode()
    for number in range(1, trials + 1):
        with Guest(requested) as guest:
            if is_ethernet(expect.model):
                with_traffic(guest, expect.model)
            trial = _judged(_log(guest, text, expect), expect)
        if trial.is_reproduced:
            break
        say(f"{path.stem}: not reproduced in trial {number} of {trials}")
    return trial


def _expectation(path: Path, plan: Plan) -> Expectation:
    if plan.expect is None or not plan.expect.dmesg:
        raise UserError(f"{path}: [expect] has no dmesg")
    return plan.expect


def _judged(log: str, expect: Expectation) -> Trial:
    missing = tuple(want for want in expect.dmesg if not re.search(want, log))
    return Trial(log, tuple(one for one in findings(log) if one.kind is not Kind.DRIVER), missing)


def _log(guest: Guest, text: str, expect: Expectation) -> str:
    """Load the plan and run its command; return the kernel's log, or the console of a lost guest.

    Wait up to the plan's ``seconds`` for the last expected line.
    """
    try:
        with Client(guest.control_socket) as control:
            control.load_plan(text)
        if expect.when == LOADING:
            guest.run(_LOAD, timeout=_LOAD_SECONDS)
        if expect.run:
            guest.run(expect.run, timeout=_RUN_SECONDS)
        end = time.monotonic() + expect.seconds
        while not re.search(expect.dmesg[-1], log := guest.dmesg()) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return log
    except GuestError:
        return guest.console
