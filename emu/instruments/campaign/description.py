"""Descriptions and results of runs: JSON values for other processes and machines.

Except for times, a result depends only on its description: it has no path and no worker's name.
Equal results therefore make equal reports, on any machine and in any order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, model_validator

from emu.device.faults.plan import LOADING, When
from emu.guests.options import Use
from emu.guests.options.tables import OptionTable, has_options
from emu.instruments.outcome import Finding, Kind

LONGEST_OUTPUT = 4000
MAX_OTHERWISE = 1000
MAX_RECORD = 4 << 20
"""Limit of a record, in characters; the rest is cut at a line's end."""
MAX_TRACE = 4 << 20
"""Limit of a cut trace, in characters; the rest is cut at a line's end."""
MAX_THREADS = 16_000
"""Limit of the text about a command's threads, in characters."""
MAX_ERRORS = 1000
"""Limit of a command's standard error in :class:`Observed`, in bytes."""
MAX_WAITING = 64
"""Limit of the queues of :class:`Observed`."""

MAX_SECONDS = 86_400
"""Limit of a command's time limit."""
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@has_options(Use.CAMPAIGN)
class GuestPart(OptionTable):
    """Guest options of a run; paths are absolute."""


class PeerPart(_Value):
    """The second guest of a run: its functions, and a command that runs beside the run's.

    Its other options are those of the run's guest.
    """

    command: Annotated[StrictStr, Field(min_length=1)]
    devices: Annotated[tuple[StrictStr, ...], Field(min_length=1)]


class Ended(StrEnum):
    """The end of a run."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    FOUND = "found"
    ERROR = "error"
    """The run could not be carried out; a continued campaign tries again."""


class Expected(_Value):
    """Expected result of a run: its ends, or the kernel's log and panic."""

    ends: tuple[Ended, ...] = ()
    """Accepted ends; if set, ``dmesg`` and ``panics`` are ignored."""
    dmesg: tuple[StrictStr, ...] = ()
    """Regular expressions; each must match a line of the kernel's log."""
    panics: bool = False
    needs_fault: bool = True
    """Whether a fault must fire; False for a plan of links only. ``ends`` need none."""


_BESIDE = {"suite": "suite", "kernels": "kernel", "devices": "devices", "probe": "probe"}


class Description(_Value):
    """One run: the guest, the command, the faults.

    ``directory``, that of the campaign's file, is shared read-only and the command begins there,
    unless ``guest`` shares another. Older versions stored none.

    ``plan`` is a fault plan as TOML, or empty; ``seed`` is the plan's seed and the command's $SEED.
    The plan starts before the guest boots or, if ``when`` is ``loaded``, once its driver is up.
    With ``repeat`` the command runs that many more times. Slab caches must not grow and device
    objects must not increase in every one. ``expected`` is None if nothing is declared.
    """

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]{0,239}$")]
    kernel: StrictStr
    device: StrictStr
    workload: StrictStr
    plan_name: StrictStr
    seed: Annotated[int, Field(strict=True, ge=0, lt=1 << 64)]
    command: StrictStr
    timeout: Seconds = 300.0
    repeat: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    plan: StrictStr = ""
    when: When = LOADING
    guest: GuestPart = GuestPart()
    directory: StrictStr | None = None
    expected: Expected | None = None
    is_observed: StrictBool = False
    peer: PeerPart | None = None
    """A second guest, connected to the run's; faults strike the run's guest alone."""

    @model_validator(mode="before")
    @classmethod
    def _of_old(cls, said: object) -> Any:
        """Return a stored description in today's form; other values are returned unchanged.

        Older versions store some guest options outside ``guest``.
        """
        if not isinstance(said, dict):
            return said
        beside = {word: said.get(key) for key, word in _BESIDE.items()}
        inner = {word: value for word, value in beside.items() if value not in (None, [], ())}
        rest = {key: value for key, value in said.items() if key not in _BESIDE}
        return {**rest, "guest": {**said.get("guest", {}), **inner}} if inner else rest

    @property
    def patience(self) -> float:
        """Seconds after which the executor of the run is considered stuck."""
        return 120 + 2 * float(self.guest.value("boot_timeout")) + (self.repeat + 2) * self.timeout


class RunFinding(_Value):
    """A :class:`emu.instruments.outcome.Finding` as JSON."""

    kind: Kind
    title: Annotated[StrictStr, Field(max_length=400)]
    function: Annotated[StrictStr, Field(max_length=400)] = ""
    lines: Annotated[tuple[StrictStr, ...], Field(max_length=200)] = ()

    @classmethod
    def of(cls, finding: Finding) -> RunFinding:
        """Return the JSON form of a finding; it has the same fields."""
        return cls.model_validate(finding, from_attributes=True)


class Observed(_Value):
    """Observations of an observed run's command, for a comparison with other runs."""

    seconds: float
    """Duration of the command, until its end or its timeout."""
    has_timed_out: StrictBool = False
    """Whether the command was still running at its time limit."""
    digest: StrictStr = ""
    """SHA-256 of its whole standard output, in hexadecimal digits."""
    errors: Annotated[StrictStr, Field(max_length=8 * MAX_ERRORS)] = ""
    """The end of its standard error."""
    left: dict[StrictStr, int] = {}
    """More objects of the device after the command than before it, by kind."""
    is_emulated: StrictBool = True
    """Whether the guest's processors are emulated; a busy host then stalls its kernel."""
    link_packets: int = 0
    """Packets that passed the plan's links."""
    threads: Annotated[StrictStr, Field(max_length=MAX_THREADS)] = ""
    """Processes of the command that did not end, and the kernel stack of each thread."""
    waiting: Annotated[tuple[StrictStr, ...], Field(max_length=MAX_WAITING)] = ()
    """Queues of transport services while these processes run, in words."""


class RunResult(_Value):
    """The result of a run."""

    name: StrictStr
    ended: Ended
    status: int | None = None
    why: Annotated[StrictStr, Field(max_length=1000)] = ""
    release: Annotated[StrictStr, Field(max_length=200)] = ""
    """Output of ``uname -r``."""
    output: Annotated[StrictStr, Field(max_length=8 * LONGEST_OUTPUT)] = ""
    """The end of the command's output."""
    seconds: float = 0.0
    """Duration of the run."""
    ended_at: float = 0.0
    """End of the run, in seconds since 1970; 0 in results of older versions."""
    rules: int = 0
    """Number of the plan's rules; 0 also in results of older versions."""
    fired: int = 0
    """Number of faults that fired and had an effect."""
    otherwise: Annotated[StrictStr, Field(max_length=MAX_OTHERWISE)] | None = None
    """Difference from the expectation: empty if there is none, None without an expectation."""
    findings: Annotated[tuple[RunFinding, ...], Field(max_length=200)] = ()
    record: StrictStr = ""
    """Record of the fired faults, if a plan was loaded and the run did not pass or is observed."""
    peer_output: Annotated[StrictStr, Field(max_length=8 * LONGEST_OUTPUT)] = ""
    """The end of the output of the second guest's command."""
    trace: Annotated[StrictStr, Field(max_length=MAX_TRACE)] = ""
    """Trace of an observed run whose fault struck, from the fault on, as JSON lines."""
    observed: Observed | None = None

    @property
    def has_struck(self) -> bool:
        """Whether a fault fired with an effect, or a packet passed a link of the plan."""
        return self.fired > 0 or (self.observed is not None and self.observed.link_packets > 0)

    @property
    def is_unfired(self) -> bool:
        """Whether the run had a plan with rules, and none of them fired with an effect."""
        return self.ended is not Ended.ERROR and self.rules > 0 and not self.fired
