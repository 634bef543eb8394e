"""Formats a finding as a mail: effect, command that shows it, patch.

The form follows Documentation/process/submitting-patches.rst and the netdev and linux-rdma trees.
Items for the sender are in angle brackets: the commit to fix, the sign-off, and the change if there
is no proposal.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from emu.device.faults.parser import dump
from emu.device.faults.plan import LOADING
from emu.host.printable import one_line, printable
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.instruments.fuzz.report.patch import DoesNotFitError, Fix, diff, fix_of
from emu.instruments.fuzz.report.place import SourceLine, decoded, place_in, place_of
from emu.instruments.outcome import Finding, Kind, findings
from emu.server.service.plan_files import read_plan

_WIDTH = 75
"""Columns of a commit message."""
_AROUND = 5
"""Source lines before and after the line to change."""
_MAX_SOURCE = 4 << 20
_LOG_LINES = 30
FACTS = "findings.toml"
_MAX_FACTS = 1 << 20
_RDMA = "drivers/infiniband/"


@dataclass(frozen=True)
class Report:
    """Data of a finding; texts may be empty."""

    title: str
    about: str
    """Behaviour of the device."""
    does: str
    """Reaction of the driver."""
    kernels: Sequence[str]
    """Kernel releases that showed the finding."""
    plan: str
    """Content of the plan file."""
    command: str
    """Command that reproduces the finding with that file."""
    log: str = ""
    where: str = ""
    """Location in the sources, as in examples/findings/findings.toml."""
    fix: Fix | None = None
    """The proposed patch."""


def of_library(plan_file: Path) -> Report:
    """Return the data of a plan of examples/findings, from findings.toml and fixes.toml beside it.

    Raises UserError without an entry for the plan, for an invalid one, and for a plan without
    [expect].
    """
    facts_file = plan_file.with_name(FACTS)
    if not facts_file.is_file():
        raise UserError(f"{plan_file}: neither in a corpus nor beside a {FACTS}")
    try:
        fact = tomllib.loads(read_infile(facts_file, _MAX_FACTS).decode())[plan_file.stem]
        title, where = str(fact["title"]), str(fact["where"])
        kernels = list(map(str, fact["kernels"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{facts_file}: no valid entry for {plan_file.stem}") from None
    plan = read_plan(plan_file)
    if plan.expect is None:
        raise UserError(f"{plan_file}: no [expect], which describes the driver's reaction")
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
    """Return the mail's text; items for the sender to fill in are in angle brackets.

    With the kernel's sources of the right release, the patch has context. A build of that kernel
    adds lines to the log's frames. Raises UserError for a tree without the location, LabError for
    an unreadable build.
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


def _subject(place: SourceLine | None, is_rdma: bool) -> str:
    prefix = "[PATCH rdma-rc] RDMA/mlx5" if is_rdma else "[PATCH net] net/mlx5"
    if place is not None and re.search(r"/core/en(_|/)", place.path):
        prefix += "e"
    function = place.function if place is not None else "<function>"
    return f"{prefix}: Check the device's values in {function}"


def _bug(report: Report, tree: Path | None) -> Finding | None:
    """Return the finding in the report's log with its title, else the first one, if any."""
    bugs = [one for one in findings(decoded(report.log, tree)) if one.kind is not Kind.DRIVER]
    return next((one for one in bugs if one.title == report.title), bugs[0] if bugs else None)


def _shown(report: Report, bug: Finding | None) -> list[str]:
    """Return the report's lines without guessed frames."""
    if bug is None:
        return [f"  {one_line(report.title)}", ""]
    lines = [line for line in bug.lines if not line.lstrip().startswith("? ")]
    return [*(f"  {line}".rstrip() for line in lines[:_LOG_LINES]), ""]


def _blame(place: SourceLine | None) -> str:
    what = "-L <line>,+1 <file>"
    if place is not None and place.path:
        what = f"-L {place.line},+1 {place.path}"
    return f'12 digits ("subject") of the commit from git blame {what}'


def _patch(fix: Fix | None, place: SourceLine | None, tree: Path | None) -> list[str]:
    """Return the proposal as a diff of the tree; without a proposal, the location (:func:`_frame`).

    Return a placeholder line without ``tree``, or if the proposal does not fit it.
    """
    if fix is None:
        return _frame(place, tree)
    if tree is None:
        return ["<the patch: --tree SOURCES makes the proposal a diff of them>"]
    try:
        return diff(fix, tree)
    except DoesNotFitError as error:
        return [f"<the patch: the proposal does not fit these sources: {error}>"]


def _frame(place: SourceLine | None, tree: Path | None) -> list[str]:
    """Return an empty patch: the location, with five lines of context if ``tree`` is given.

    Return a placeholder without a location. Raises UserError if the tree lacks the file or line.
    """
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
        raise UserError(
            f"{tree}: {place.path} is missing: are these sources of Linux {place.release}?"
        )
    lines = read_infile(file, _MAX_SOURCE).decode(errors="replace").splitlines()
    if place.line > len(lines):
        raise UserError(
            f"{file}: line {place.line} is missing: are these sources of Linux {place.release}?"
        )
    first = max(1, place.line - _AROUND)
    shown = lines[first - 1 : place.line + _AROUND]
    return [
        *head,
        f"@@ -{first},{len(shown)} +{first},{len(shown)} @@ {place.function}",
        *(f" {line}" for line in shown),
    ]


def _wrapped(text: str) -> list[str]:
    """Return the text's words in lines of at most 75 columns; a longer word has its own line."""
    words = " ".join(one_line(text, 4000).split())
    return wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
