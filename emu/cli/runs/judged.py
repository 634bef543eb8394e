"""Turns a command's run in a guest into a status and result files, for ``run``.

The result covers the command's status, the findings of the kernel log, and leaked objects. A guest
that fails has a result, too.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from emu.cli.options.groups import RESULTS, grouped_option
from emu.cli.options.results import write_results
from emu.cli.shared.notice import notice
from emu.cli.shared.output import forward
from emu.cli.shared.params import NearChoice, WholeNumber
from emu.guests import CommandTimeoutError, Guest, GuestError
from emu.guests.conformance.results import KSFT_SKIP, Case, Verdict, of_status
from emu.host.counted import counted
from emu.host.printable import one_line, printable
from emu.instruments.outcome import (
    FailOn,
    Finding,
    driver_lines,
    failures,
    findings,
    growing_kinds,
    merged,
    of_error,
    settled,
)
from emu.instruments.outcome.objects import MIN_REPETITIONS
from emu.server.control import Client

F = TypeVar("F", bound=Callable[..., Any])

FOUND = 122
"""Exit status if the command succeeded but the kernel log has a failure."""

_READ_SECONDS = 60.0
_MAX_KEPT = 8 << 20
_MAX_SHOWN = 8000
"""Maximum number of characters of the output, and of the log, in a result."""
_MAX_DRIVER_LINES = 10


def judge_options(function: F) -> F:
    """Add --fail-on, --check-leaks and --repeat to a command.

    The command gets ``fail_on``, ``check_leaks`` and ``repeat``; None is the default of ``repeat``.
    """
    for option in (
        grouped_option(
            RESULTS,
            "--repeat",
            type=WholeNumber(0, 1000),
            metavar="N",
            help=f"Repeat COMMAND N times.  [default: 0; with --check-leaks {MIN_REPETITIONS}]",
        ),
        grouped_option(
            RESULTS,
            "--check-leaks",
            is_flag=True,
            help="Fail if every repetition leaves more objects in the device.",
        ),
        grouped_option(
            RESULTS,
            "--fail-on",
            type=NearChoice([one.value for one in FailOn]),
            default=FailOn.ERROR.value,
            show_default=True,
            help="Fail if the kernel logs at least this: a WARNING, or an error (BUG, oops, KASAN,"
            " lockdep, a hang).",
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
        """``files`` are the paths of the JUnit and TAP files; None writes none."""
        self._words = shlex.join(words)
        self._fail_on = fail_on
        self._files = files
        self._output = bytearray()
        self._log = ""
        self._ends: list[Finding] = []
        self._began = time.monotonic()

    def sink(self, kind: int, data: bytes) -> None:
        """Write a chunk of the command's output to the user, and keep the last chunks."""
        forward(kind, data)
        self._output += data
        del self._output[: -4 * _MAX_SHOWN]

    @contextlib.contextmanager
    def telling(self, guest: Guest) -> Iterator[None]:
        """Write the result files with an ERROR if the guest fails in the body; raise that error.

        The reported log is the kernel's, or the console of a lost guest.
        """
        try:
            yield
        except GuestError as error:
            self._ends.append(of_error(error))
            self._read(guest, error)
            self._write(Verdict.ERROR, str(error), self._findings())
            raise

    def run_repeatedly(
        self, guest: Guest, run_once: Callable[[], int], count: int, *, check: bool
    ) -> int:
        """Run once and then ``count`` times; return the first status other than 0, else 0.

        A status other than 0 ends the repetitions. With ``check``, objects that each repetition
        leaves in the device are a finding.
        """
        self._began = time.monotonic()
        status, counts = run_once(), []
        if status in (0, KSFT_SKIP) and check:
            counts.append(_census(guest))
        for _ in range(count):
            if status:
                break
            status = run_once()
            if check:
                counts.append(_census(guest))
        if not status:
            self._ends += growing_kinds(counts)
        return status

    def concluded(self, guest: Guest, status: int) -> int:
        """Read the kernel log, print its findings, write the result files; return the exit status.

        The status is the command's own, or :data:`FOUND` (122) if the command did not fail but the
        log or a leak did.
        """
        self._read(guest, None)
        reported = self._findings()
        failed = failures(reported, self._fail_on, is_emulated=guest.is_emulated)
        for one in reported:
            lines = one.lines[:1] if one in self._ends else ()
            notice(one_line(": ".join([one.title, *lines])))
        case = of_status(self._words, status, 0.0)
        if failed and case.verdict is not Verdict.FAIL:
            self._write(Verdict.FAIL, failed[0].title, reported)
            return FOUND
        self._write(case.verdict, case.detail, reported)
        return status

    def tell_driver(self) -> None:
        """Print the first warnings and errors of the mlx5 drivers in the guest's log."""
        lines = driver_lines(self._log)
        for line in lines[:_MAX_DRIVER_LINES]:
            notice(f"dmesg: {one_line(line)}")
        if (more := len(lines) - _MAX_DRIVER_LINES) > 0:
            notice(f"dmesg: {counted(more, 'more line')} of the driver")

    def _findings(self) -> tuple[Finding, ...]:
        return merged(findings(self._log), self._ends)

    def _read(self, guest: Guest, error: GuestError | None) -> None:
        """Store the kernel log, from the guest or, if the guest has failed, from its console."""
        with contextlib.suppress(GuestError):
            if error is None or isinstance(error, CommandTimeoutError):
                output = guest.run(["dmesg", "--raw"], timeout=_READ_SECONDS).stdout
                self._log = output[-_MAX_KEPT:]
                return
        try:
            self._log = guest.console
        except GuestError:  # the guest did not boot and was stopped
            self._log = error.console if error is not None else ""

    def _write(self, verdict: Verdict, why: str, reported: Sequence[Finding]) -> None:
        """Write the result files; include output and log for a failure or an error."""
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
