"""A run's description and its result: values that go to other processes and machines as JSON.

But for times (how long it took, when its faults fired) a result is a function of its description
alone: it holds no place and no name of a worker, so that equal results make equal reports, whoever
has carried the runs out, in any order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr, model_validator

from emu.device.faults.plan import LOADING
from emu.guests.options import Use
from emu.guests.options.tables import OptionTable, has_options
from emu.instruments.outcome import Finding, Kind

LONGEST_OUTPUT = 4000
MAX_OTHERWISE = 1000
MAX_RECORD = 4 << 20
"""Characters of a record that are kept; what follows is cut at a line's end."""

When = Annotated[StrictStr, Field(pattern="^(loading|loaded)$")]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@has_options(Use.CAMPAIGN)
class GuestPart(OptionTable):
    """The guest of a run; paths in it are absolute."""


class Ended(StrEnum):
    """How a run has ended."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    FOUND = "found"
    ERROR = "error"
    """It could not be carried out; a campaign that goes on tries it again."""


class Expected(_Value):
    """What is expected of a run: how it ends, or what its plan says of the kernel."""

    ends: tuple[Ended, ...] = ()
    """Any of these; the rest counts for nothing then."""
    dmesg: tuple[StrictStr, ...] = ()
    """Regular expressions, each for one line of the kernel's log."""
    panics: bool = False


_BESIDE = {"suite": "suite", "kernels": "kernel", "devices": "devices", "probe": "probe"}


class Description(_Value):
    """One run: what boots, what it runs, what fails meanwhile.

    ``plan`` is a fault plan as TOML, or empty; the seed is the plan's, and the command's $SEED. The
    plan begins before the guest boots, or, if ``when`` says so, once its driver is up.
    With ``turns`` the command runs so many times more: slab caches must not grow with it, and not
    every turn may leave objects in the device. ``expected`` is None if nobody has said.
    """

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]{0,239}$")]
    kernel: StrictStr
    device: StrictStr
    workload: StrictStr
    plan_name: StrictStr
    seed: Annotated[int, Field(strict=True, ge=0, lt=1 << 64)]
    command: StrictStr
    timeout: Seconds = 300.0
    turns: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    plan: StrictStr = ""
    when: When = LOADING
    guest: GuestPart = GuestPart()
    expected: Expected | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_old(cls, said: object) -> Any:
        """In campaigns that were begun earlier some of the guest's options stand beside it."""
        if not isinstance(said, dict):
            return said
        beside = {word: said.get(key) for key, word in _BESIDE.items()}
        moved = {word: value for word, value in beside.items() if value not in (None, [], ())}
        rest = {key: value for key, value in said.items() if key not in _BESIDE}
        return {**rest, "guest": {**said.get("guest", {}), **moved}} if moved else rest

    @property
    def patience(self) -> float:
        """Seconds after which whoever carries the run out must be stuck itself."""
        return 120 + 2 * float(self.guest.value("boot_timeout")) + (self.turns + 2) * self.timeout


class RunFinding(_Value):
    """A :class:`emu.instruments.outcome.Finding` as JSON."""

    kind: Kind
    title: Annotated[StrictStr, Field(max_length=400)]
    function: Annotated[StrictStr, Field(max_length=400)] = ""
    lines: Annotated[tuple[StrictStr, ...], Field(max_length=200)] = ()

    @classmethod
    def of(cls, finding: Finding) -> RunFinding:
        """The finding's."""
        return cls(
            kind=finding.kind,
            title=finding.title,
            function=finding.function,
            lines=finding.lines,
        )


class RunResult(_Value):
    """What became of a run."""

    name: StrictStr
    ended: Ended
    status: int | None = None
    why: Annotated[StrictStr, Field(max_length=1000)] = ""
    release: Annotated[StrictStr, Field(max_length=200)] = ""
    """The kernel's release, as uname tells it."""
    output: Annotated[StrictStr, Field(max_length=8 * LONGEST_OUTPUT)] = ""
    """The end of what the command has written."""
    seconds: float = 0.0
    """How long it took."""
    ended_at: float = 0.0
    """When that was, in seconds since 1970; 0 in results of before this was noted."""
    fired: int = 0
    otherwise: Annotated[StrictStr, Field(max_length=MAX_OTHERWISE)] | None = None
    """In what it differs from what was expected: empty if in nothing, None if nobody has said."""
    findings: Annotated[tuple[RunFinding, ...], Field(max_length=200)] = ()
    record: StrictStr = ""
    """The record of the faults that fired, when a plan was loaded and something went wrong."""
