"""A finding as the mailing list wants it: what happens, how to see it, and a patch.

The form is that of Documentation/process/submitting-patches.rst and of the netdev and linux-rdma
trees. What only a person can write is left in angle brackets: which commit it fixes, who signs it
off, and the change itself where there is no proposal for it.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.device.faults.parser import dump
from emu.device.faults.plan import LOADING
from emu.host.printable import one_line, printable
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.instruments.fuzz.report.patch import DoesNotFitError, Fix, diff, fix_of
from emu.instruments.fuzz.report.place import Place, decoded, place_in, place_of
from emu.instruments.outcome import Finding, Kind, findings
from emu.server.service.plan_files import read_plan

_WIDTH = 75
"""Columns of a commit message."""
_AROUND = 5
"""Lines of the source before and after the one that is to be changed."""
_MAX_SOURCE = 4 << 20
_LOG_LINES = 30
FACTS = "findings.toml"
_MAX_FACTS = 1 << 20
_RDMA = "drivers/infiniband/"


@dataclass(frozen=True)
class Report:
    """What is known of a finding; texts may be empty."""

    title: str
    about: str
    """What the device does."""
    does: str
    """What the driver does about it."""
    kernels: Sequence[str]
    """Releases in which it was seen."""
    plan: str
    """The plan, as a file."""
    command: str
    """The command that shows it with that file."""
    log: str = ""
    where: str = ""
    """The place in the sources, as in examples/findings/findings.toml."""
    fix: Fix | None = None
    """What is proposed."""


def of_library(plan_file: Path) -> Report:
    """What is known of a plan of examples/findings. Raises UserError."""
    facts_file = plan_file.with_name(FACTS)
    if not facts_file.is_file():
        raise UserError(f"{plan_file}: neither in a corpus nor beside a {FACTS}")
    try:
        fact = tomllib.loads(read_infile(facts_file, _MAX_FACTS).decode())[plan_file.stem]
        title, where, kernels = (
            str(fact["title"]),
            str(fact["where"]),
            list(map(str, fact["kernels"])),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{facts_file}: it does not tell of {plan_file.stem}") from None
    plan = read_plan(plan_file)
    if plan.expect is None:
        raise UserError(f"{plan_file}: it does not say what the driver does: no [expect]")
    expect = plan.expect
    words = ["mlx5emu", "run", *(["--no-probe"] if expect.when == LOADING else [])]
    words += ["--device", expect.model, "--faults", plan_file.name, "--"]
    work = [*(["modprobe mlx5_ib"] if expect.when == LOADING else []), expect.run or "sleep 10"]
    command = shlex.join([*words, "sh", "-c", "; ".join(work)])
    fix = fix_of(plan_file.parent, plan_file.stem)
    return Report(
        title, plan.about, expect.does, kernels, dump(plan), command, where=where, fix=fix
    )


def mail(report: Report, tree: Path | None = None) -> str:
    """The whole mail; with the kernel's sources of the place's release the patch has its context.

    A build of that kernel gives the log's frames their lines. Raises UserError for a tree that has
    not the place, LabError for a build that cannot be read.
    """
    bug = _bug(report, tree)
    place = place_of(report.where)
    if place is None and bug is not None:
        place = place_in(bug, report.kernels[0], tree)
    is_rdma = place is not None and place.path.startswith(_RDMA)
    lists = "linux-rdma@vger.kernel.org" if is_rdma else "netdev@vger.kernel.org"
    path = place.path if place is not None and place.path else "<file>"
    parts = [
        f"To: {lists}",
        f"Cc: <scripts/get_maintainer.pl -f {path}>",
        f"Subject: {_subject(place, is_rdma)}",
        "",
        *_wrapped(f"{report.about} {report.does}"),
        "",
        *_shown(report, bug),
        *([*_wrapped(report.fix.why), ""] if report.fix is not None else []),
        *_wrapped(f"Seen in Linux {', '.join(report.kernels)}, with an emulated device:"),
        "",
        f"  {one_line(report.command)}",
        "",
        *(f"  {line}".rstrip() for line in printable(report.plan).splitlines()),
        "",
        f"Fixes: <{_blame(place)}>",
        "Signed-off-by: <your name and address>",
        "---",
        *_patch(report.fix, place, tree),
    ]
    return "\n".join(parts) + "\n"


def _subject(place: Place | None, is_rdma: bool) -> str:
    prefix = "[PATCH rdma-rc] RDMA/mlx5" if is_rdma else "[PATCH net] net/mlx5"
    if place is not None and re.search(r"/core/en(_|/)", place.path):
        prefix += "e"
    function = place.function if place is not None else "<function>"
    return f"{prefix}: Check the device's values in {function}"


def _bug(report: Report, tree: Path | None) -> Finding | None:
    """The kernel's report about it."""
    bugs = [one for one in findings(decoded(report.log, tree)) if one.kind is not Kind.DRIVER]
    return next((one for one in bugs if one.title == report.title), bugs[0] if bugs else None)


def _shown(report: Report, bug: Finding | None) -> list[str]:
    """That report, as far as it is about the driver."""
    if bug is None:
        return [f"  {one_line(report.title)}", ""]
    lines = [line for line in bug.lines if not line.lstrip().startswith("? ")]
    return [*(f"  {line}".rstrip() for line in lines[:_LOG_LINES]), ""]


def _blame(place: Place | None) -> str:
    what = "-L <line>,+1 <file>"
    if place is not None and place.path:
        what = f"-L {place.line},+1 {place.path}"
    return f'12 digits ("subject") of the commit that git blame {what} tells'


def _patch(fix: Fix | None, place: Place | None, tree: Path | None) -> list[str]:
    """The proposal as a diff of the tree; without a proposal that fits it, the place for one."""
    if fix is None:
        return _frame(place, tree)
    if tree is None:
        return ["<the patch: --tree SOURCES makes the proposal a diff of them>"]
    try:
        return diff(fix, tree)
    except DoesNotFitError as error:
        return [f"<the patch: the proposal does not fit these sources: {error}>"]


def _frame(place: Place | None, tree: Path | None) -> list[str]:
    """A patch that changes nothing yet: the place with its surroundings."""
    if place is None or not place.path:
        return ["<the patch>"]
    head = [
        f"diff --git a/{place.path} b/{place.path}",
        f"--- a/{place.path}",
        f"+++ b/{place.path}",
    ]
    if tree is None:
        return [*head, f"@@ -{place.line} +{place.line} @@ {place.function}"]
    file = tree / place.path
    if not file.is_file():
        raise UserError(f"{tree}: it has no {place.path}: no sources of Linux {place.release}?")
    lines = read_infile(file, _MAX_SOURCE).decode(errors="replace").splitlines()
    if place.line > len(lines):
        raise UserError(f"{file}: it has no line {place.line}: not of Linux {place.release}?")
    first = max(1, place.line - _AROUND)
    shown = lines[first - 1 : place.line + _AROUND]
    return [
        *head,
        f"@@ -{first},{len(shown)} +{first},{len(shown)} @@ {place.function}",
        *(f" {line}" for line in shown),
    ]


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in one_line(text, 4000).split():
        if line and len(line) + 1 + len(word) > _WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return [*lines, line]
