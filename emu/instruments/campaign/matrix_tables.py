"""The tables of a campaign's matrix file, and their checks."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from emu.device.faults.plan import When
from emu.guests.archive.names import DEFAULT_SUITE
from emu.guests.options import DEFAULT_DEVICE, Use
from emu.guests.options.tables import OptionTable, has_options
from emu.instruments.campaign.description import Description, Seconds
from emu.model_words import matching

MAX_RUNS = 100_000

Name = Annotated[
    StrictStr,
    matching(
        r"[a-z0-9][a-z0-9_+-]{0,39}", "a name of up to 40 lower-case letters, digits, _, + and -"
    ),
]


End = Literal["passed", "skipped", "failed", "found"]


def _as_list(said: Any) -> Any:
    return [said] if isinstance(said, str) else said


class _MatrixTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@has_options(Use.CAMPAIGN, "guest")
class MatrixGuestTable(OptionTable):
    """``[guest]``: options of all guests."""


@has_options(Use.CAMPAIGN, "kernel")
class KernelTable(OptionTable):
    """``[[kernel]]``: a suite, with its own kernel or the one that ``--kernel`` accepts."""

    name: Name


@has_options(Use.CAMPAIGN, "device")
class DeviceTable(OptionTable):
    """``[[device]]``: the PCI functions of a guest."""

    name: Name


@has_options(Use.CAMPAIGN, "workload")
class WorkloadTable(OptionTable):
    """``[[workload]]``: a shell command for the guest."""

    name: Name
    run: Annotated[StrictStr, Field(min_length=1, max_length=100_000)]
    timeout: Seconds = 300.0
    repeat: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0


class PlanTable(_MatrixTable):
    """``[[plan]]``: fault plan files or ``@NAME``, by a pattern; without, runs without faults.

    ``when`` is ``loading`` (before the guest boots) or ``loaded`` (once the driver is up). Its
    default is the plan's own, else ``loading``. ``expect`` is one end of the runs or a list of
    ends. Its default is the plan's own expectation.
    """

    name: Name | None = None
    files: StrictStr | None = None
    when: When | None = None
    expect: Annotated[tuple[End, ...], Field(min_length=1), BeforeValidator(_as_list)] | None = None


class ExcludeTable(_MatrixTable):
    """``[[exclude]]``: name patterns; a run that matches all of them is left out."""

    kernel: StrictStr = "*"
    device: StrictStr = "*"
    workload: StrictStr = "*"
    plan: StrictStr = "*"

    def matches(self, run: Description) -> bool:
        """Return whether all four patterns match a run, which is then left out of the campaign."""
        return all(
            fnmatchcase(name, pattern)
            for name, pattern in (
                (run.kernel, self.kernel),
                (run.device, self.device),
                (run.workload, self.workload),
                (run.plan_name, self.plan),
            )
        )


Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 64)]


class Matrix(_MatrixTable):
    """A matrix file."""

    name: Name | None = None
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=MAX_RUNS)] = (0,)
    guest: MatrixGuestTable = MatrixGuestTable()
    kernel: Annotated[tuple[KernelTable, ...], Field(min_length=1)] = (
        KernelTable(name=DEFAULT_SUITE),
    )
    device: Annotated[tuple[DeviceTable, ...], Field(min_length=1)] = (
        DeviceTable(name=DEFAULT_DEVICE),
    )
    workload: tuple[WorkloadTable, ...] = ()
    """At least one; without any, :func:`read` reports that with the other mistakes."""
    plan: Annotated[tuple[PlanTable, ...], Field(min_length=1)] = (PlanTable(),)
    exclude: tuple[ExcludeTable, ...] = ()


TABLES: dict[str, type[BaseModel]] = {
    "guest": MatrixGuestTable,
    "kernel": KernelTable,
    "device": DeviceTable,
    "workload": WorkloadTable,
    "plan": PlanTable,
    "exclude": ExcludeTable,
}
