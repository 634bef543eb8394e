"""Runs of a campaign without guests: what becomes of each follows from its description."""

from __future__ import annotations

import os
import signal
import zlib
from pathlib import Path

from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, Ended, RunFinding, RunResult
from emu.instruments.outcome import Kind

NAME = "helpers.instruments.fake_runs:carry_out"
NO_LAB = "helpers.instruments.fake_runs:no_lab"
RECORD = '{"record":1,"versions":{},"seed":0,"devices":[],"run":{},"plan":{"rule":[]}}\n'
ENDS = (
    (Ended.PASSED, ()),
    (Ended.PASSED, ()),
    (Ended.FAILED, ()),
    (Ended.SKIPPED, ()),
    (Ended.FOUND, ((Kind.WARNING, "WARNING in one"), (Kind.DRIVER, "mlx5_core: two"))),
    (Ended.FOUND, ((Kind.OOPS, "kernel BUG in three"),)),
)


def descriptions(count, kernels=("bookworm", "trixie", "sid"), command="true"):
    """So many runs over the kernels."""
    return [
        Description(
            name=f"{kernels[number % len(kernels)]}.cx6.work.plan{number % 7}.{number}",
            kernel=kernels[number % len(kernels)],
            device="cx6",
            workload="work",
            plan_name=f"plan{number % 7}",
            seed=number,
            command=command,
        )
        for number in range(count)
    ]


def carry_out(run: Description) -> RunResult:
    """The result of a run; commands that say so kill their worker, wait, or fail on the way."""
    word, _, path = run.command.partition(" ")
    if word == "note":
        _note(run, Path(path))
    if word == "die" or (word == "die-once" and _is_first(Path(path))):
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "break":
        raise ZeroDivisionError("a mistake")
    ended, findings = ENDS[zlib.crc32(run.name.encode()) % len(ENDS)]
    told = [
        RunFinding(kind=kind, title=title, function="f", lines=(f"line of {run.name}",))
        for kind, title in findings
    ]
    return RunResult(
        name=run.name,
        ended=ended,
        status=1 if ended is Ended.FAILED else 0,
        why="\x1b[2Jno" if ended is Ended.FAILED else "",
        findings=tuple(told),
        record=RECORD if findings else "",
    )


def no_lab(run: Description) -> RunResult:
    """As on a machine that cannot boot guests."""
    raise UserError("no QEMU")


def _note(run: Description, path: Path) -> None:
    """Add a run's name to a file. While no ``go-on`` is beside it, the third run does not end."""
    if run.seed > 2 and not (path.parent / "go-on").exists():
        signal.pause()
    with path.open("a") as file:
        print(run.name, file=file)


def _is_first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
