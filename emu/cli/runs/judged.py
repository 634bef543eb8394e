"""What became of a command in a guest: its status, its kernel's findings, its leaks; as a result.

For ``run``: the guest may be gone when it is asked, and there is a result all the same.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.cli.options.results import write_results
from emu.cli.shared.output import pass_on
from emu.guests import CommandTimeoutError, Guest, GuestError
from emu.guests.conformance.results import KSFT_SKIP, Case, Verdict, of_status
from emu.host.printable import one_line, printable
from emu.instruments.outcome import (
    FailOn,
    Finding,
    failures,
    findings,
    left,
    of_error,
    settled,
    together,
)
from emu.instruments.outcome.objects import MIN_TURNS
from emu.server.control import Client

F = TypeVar("F", bound=Callable[..., Any])

FOUND = 122
"""The status of a command that was content with a kernel that was not."""

_READ_SECONDS = 60.0
_MAX_KEPT = 8 << 20
_MAX_SHOWN = 8000
"""Characters of the ends of output and log in a result."""


def judge_options(function: F) -> F:
    """Add --fail-on, --check-leaks and --turns."""
    for option in (
        click.option(
            "--turns",
            type=click.IntRange(0, 1000),
            metavar="N",
            help=f"Run COMMAND so many times more.  [default: 0; with --check-leaks {MIN_TURNS}]",
        ),
        click.option(
            "--check-leaks",
            is_flag=True,
            help="Fail if every turn after the first leaves objects in the device.",
        ),
        click.option(
            "--fail-on",
            type=click.Choice([one.value for one in FailOn]),
            default=FailOn.ERROR.value,
            show_default=True,
            help="Fail if the guest's kernel logs a WARNING, or only if an error: BUG, oops,"
            " KASAN, lockdep, a hang.",
        ),
    ):
        function = option(function)
    return function


class Judged:
    """A command's run, from its words to its status and result files."""

    def __init__(
        self,
        words: Sequence[str],
        fail_on: FailOn,
        files: tuple[Path | None, Path | None],
    ) -> None:
        """``files`` are those for JUnit and TAP."""
        self._words = shlex.join(words)
        self._fail_on = fail_on
        self._files = files
        self._output = bytearray()
        self._log = ""
        self._ends: list[Finding] = []
        self._began = time.monotonic()

    def sink(self, kind: int, data: bytes) -> None:
        """A part of the command's output: it goes to the user, and its end is kept."""
        pass_on(kind, data)
        self._output += data
        del self._output[: -4 * _MAX_SHOWN]

    @contextlib.contextmanager
    def telling(self, guest: Guest) -> Iterator[None]:
        """A guest that fails in the body leaves a result all the same."""
        try:
            yield
        except GuestError as error:
            self._ends.append(of_error(error))
            self._read(guest, error)
            self._write(Verdict.ERROR, str(error), self._findings())
            raise

    def turns(self, guest: Guest, turn: Callable[[], int], count: int, *, check: bool) -> int:
        """Carry out a turn, and as many more; the first status that is not 0.

        With ``check`` what each turn after the first has left in the device is a finding.
        """
        self._began = time.monotonic()
        status, counts = turn(), []
        if status in (0, KSFT_SKIP) and check:
            counts.append(_census(guest))
        for _ in range(count):
            if status:
                break
            status = turn()
            if check:
                counts.append(_census(guest))
        if not status:
            self._ends += left(counts)
        return status

    def concluded(self, guest: Guest, status: int) -> int:
        """Read the log, write the result; the status that the run ends with."""
        self._read(guest, None)
        reported = self._findings()
        failed = failures(reported, self._fail_on, is_emulated=guest.is_emulated)
        for one in reported:
            lines = one.lines[:1] if one in self._ends else ()
            click.echo(f"mlx5emu: {one_line(': '.join([one.title, *lines]))}", err=True)
        case = of_status(self._words, status, 0.0)
        if failed and case.verdict is not Verdict.FAIL:
            self._write(Verdict.FAIL, failed[0].title, reported)
            return FOUND
        self._write(case.verdict, case.detail, reported)
        return status

    def _findings(self) -> tuple[Finding, ...]:
        return together(findings(self._log), self._ends)

    def _read(self, guest: Guest, error: GuestError | None) -> None:
        """The kernel's log, from the guest or, when that is gone, from its console."""
        with contextlib.suppress(GuestError):
            if error is None or isinstance(error, CommandTimeoutError):
                said = guest.run(["dmesg", "--raw"], timeout=_READ_SECONDS).stdout
                self._log = said[-_MAX_KEPT:]
                return
        try:
            self._log = guest.console
        except GuestError:  # it has been stopped already, as it did not come up
            self._log = error.console if error is not None else ""

    def _write(self, verdict: Verdict, why: str, reported: Sequence[Finding]) -> None:
        lines = [f"{one.kind}: {one.title}" for one in reported]
        lines += [f"  {line}" for one in reported for line in one.lines]
        is_bad = verdict in (Verdict.FAIL, Verdict.ERROR)
        case = Case(
            "mlx5emu run",
            self._words,
            verdict,
            "\n".join([one_line(why), *lines]) if why or lines else "",
            time.monotonic() - self._began,
            printable(self._output.decode(errors="replace")[-_MAX_SHOWN:]) if is_bad else "",
            printable(self._log[-_MAX_SHOWN:]) if is_bad else "",
        )
        write_results([case], *self._files)


def _census(guest: Guest) -> dict[str, int]:
    with Client(guest.control_socket) as control:
        return settled(control)
