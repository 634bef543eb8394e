"""Judges a run of a test with a failure, by rules in a fixed order; each verdict has evidence."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from emu.host.counted import counted
from emu.host.printable import one_line
from emu.instruments.campaign.description import Ended, Observed, RunFinding, RunResult
from emu.instruments.outcome import EX_DATAERR, FailOn, Finding, Kind, failures
from emu.instruments.outcome.finding import plain_function

MAX_EVIDENCE = 300
_SIGNALLED = 128
"""Exit statuses above are 128 + the number of a signal, as a shell reports it."""
_MAX_SIGNAL = 64
_KERNEL = frozenset({
    Kind.PANIC, Kind.OOPS, Kind.KASAN, Kind.UBSAN, Kind.LOCKDEP, Kind.HANG, Kind.REFCOUNT,
    Kind.WARNING, Kind.LEAK,
})  # fmt: skip
"""Findings in the log of the kernel."""
_FATAL = "Fatal error"
"""Message of drivers/net/ethernet/mellanox/mlx5/core/health.c, after which no command is sent."""
_BLOCKED = "INFO: task hung in "
"""Title of tasks that SysRq-w shows, which a run uses after a timeout."""


class ChaosVerdict(StrEnum):
    """Verdicts, worst first, in the order of the rules."""

    NO_RESULT = "no result"
    """The run could not be carried out."""
    KERNEL = "kernel"
    CRASH = "crash"
    HANG = "hang"
    WRONG_DATA = "wrong-data"
    LEAK = "leak"
    ERROR = "error"
    NOT_REACHED = "not-reached"
    """No fault struck, and the test passed or ended with an error."""
    RECOVERED = "recovered"


WORDS = {
    ChaosVerdict.NO_RESULT: "no result",
    ChaosVerdict.KERNEL: "kernel warning",
    ChaosVerdict.CRASH: "crash",
    ChaosVerdict.HANG: "hang",
    ChaosVerdict.WRONG_DATA: "wrong data",
    ChaosVerdict.LEAK: "leak",
    ChaosVerdict.ERROR: "clean error",
    ChaosVerdict.NOT_REACHED: "not reached",
    ChaosVerdict.RECOVERED: "recovered",
}
"""The verdicts in words for people."""
BAD = (
    ChaosVerdict.KERNEL,
    ChaosVerdict.CRASH,
    ChaosVerdict.HANG,
    ChaosVerdict.WRONG_DATA,
    ChaosVerdict.LEAK,
)
"""Verdicts that fail a run of the command, unless the user names others."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of one run."""

    verdict: ChaosVerdict
    evidence: str
    slower: float | None = None
    """Seconds that the test took longer than without faults; None unless it recovered."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The clean run, and the user's signs of wrong data."""

    clean: RunResult
    wrong_data_status: int = EX_DATAERR
    is_compared: bool = False
    """Whether a test that ends with status 0 must have the output of the clean run."""

    def judged(self, result: RunResult) -> Judgement:
        """Return the verdict of a run: the first rule that its result meets.

        If no fault struck, an error or a success is NOT_REACHED, and the evidence of others says
        so.
        """
        verdict, evidence = next(self._met(result))
        if not result.has_struck and verdict is not ChaosVerdict.NO_RESULT:
            evidence = f"{evidence}; no fault struck"
            if verdict is ChaosVerdict.RECOVERED:
                evidence = "the test ended before the fault struck"
            if verdict in (ChaosVerdict.ERROR, ChaosVerdict.RECOVERED):
                verdict = ChaosVerdict.NOT_REACHED
        slower = self._slower(result) if verdict is ChaosVerdict.RECOVERED else None
        return Judgement(verdict, one_line(evidence, MAX_EVIDENCE), slower)

    def _met(self, result: RunResult) -> Iterator[tuple[ChaosVerdict, str]]:
        """Yield the verdicts of the rules that the result meets, in their order."""
        if kernel := kernel_findings(result):
            yield ChaosVerdict.KERNEL, kernel[0].title
        if has_timed_out(result):
            yield ChaosVerdict.HANG, self._waits(result)
        if result.status is None or result.observed is None:
            yield ChaosVerdict.NO_RESULT, result.why or "the guest was lost"
            return
        if number := signal_of(result.status):
            yield ChaosVerdict.CRASH, f"ended by {_signal_name(number)}"
        if result.status == self.wrong_data_status:
            yield ChaosVerdict.WRONG_DATA, f"status {result.status}"
        if self.is_compared and not result.status and (why := self._difference(result)):
            yield ChaosVerdict.WRONG_DATA, why
        if (left := self._left(result.observed)) and not _is_fatal(result):
            kinds = ", ".join(f"{count} {kind}" for kind, count in left.items())
            yield ChaosVerdict.LEAK, f"{_running(result.observed)}left in the adapter: {kinds}"
        if result.status:
            yield ChaosVerdict.ERROR, f"status {result.status}{_last_line(result)}"
        slower = round(self._slower(result), 1) + 0.0  # no "-0.0"
        yield ChaosVerdict.RECOVERED, f"{slower:+.1f} s"

    def _waits(self, result: RunResult) -> str:
        """Return the time limit of a test that hangs, and where its threads wait."""
        observed = result.observed
        places = _places(observed) if observed is not None else ""
        seconds = 0.0 if observed is None else observed.seconds
        return f"no end after {seconds:.0f} s; {places}" if places else f"no end in {seconds:.0f} s"

    def _difference(self, result: RunResult) -> str:
        """Return how the output differs from the clean run's; empty if it does not."""
        clean = self.clean.observed
        if result.observed is None or clean is None or result.observed.digest == clean.digest:
            return ""
        lines, wanted = result.output.splitlines(), self.clean.output.splitlines()
        for number, (line, other) in enumerate(zip(lines, wanted), 1):
            if line != other:
                return f"output line {number}: {one_line(line, 60)!r}, not {one_line(other, 60)!r}"
        return "the output is not that of the clean run"

    def _left(self, observed: Observed) -> dict[str, int]:
        """Return the objects left beyond those of the clean run, by kind."""
        usual = self.clean.observed.left if self.clean.observed is not None else {}
        more = {kind: count - usual.get(kind, 0) for kind, count in observed.left.items()}
        return {kind: count for kind, count in more.items() if count > 0}

    def _slower(self, result: RunResult) -> float:
        """Return the seconds that a run took longer than the clean run."""
        one, clean = result.observed, self.clean.observed
        return 0.0 if one is None or clean is None else one.seconds - clean.seconds


def _is_fatal(result: RunResult) -> bool:
    """Return whether the driver has given the adapter up, and so destroys no more objects in it."""
    return any(one.kind is Kind.DRIVER and _FATAL in one.title for one in result.findings)


def why_not_clean(result: RunResult) -> str:
    """Return why the run without faults is no measure for others; empty if it is one."""
    if kernel := kernel_findings(result):
        return kernel[0].title
    if has_timed_out(result):
        return result.why
    if result.ended is Ended.ERROR or result.status is None:
        return result.why or "the guest was lost"
    how_found = f"; {result.why}" if result.why else ""
    return f"status {result.status}{_last_line(result)}{how_found}" if result.status else ""


def kernel_findings(result: RunResult) -> list[RunFinding]:
    """Return the failures that the kernel logged, or its end.

    Tasks that a run lists after a timeout, and stalls of an emulated kernel, are left out.
    """
    is_emulated = result.observed is None or result.observed.is_emulated
    timed_out = has_timed_out(result)
    return [
        one
        for one in result.findings
        if one.kind in _KERNEL
        and failures([Finding(one.kind, one.title)], FailOn.WARNING, is_emulated=is_emulated)
        and not (timed_out and one.title.startswith(_BLOCKED))
    ]


def has_timed_out(result: RunResult) -> bool:
    """Return whether the command was still running at its time limit."""
    return result.observed is not None and result.observed.has_timed_out


def signal_of(status: int) -> int:
    """Return the signal that ended a command, 0 for a command that ended by itself."""
    number = status - _SIGNALLED
    return number if 0 < number <= _MAX_SIGNAL else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _places(observed: Observed) -> str:
    """Return the number of threads, and how many of them run or wait in which kernel function."""
    threads = [line for line in observed.threads.splitlines() if line.startswith("  thread ")]
    if not threads:
        return ""
    places = Counter(plain_function(line.partition(", waits in ")[2]) for line in threads)
    words = [f"{count} in {place}" for place, count in places.items() if place]
    words += [f"{places['']} running"] * bool(places[""])
    return f"{counted(len(threads), 'thread')}: {', '.join(words)}"


def _running(observed: Observed) -> str:
    """Return the processes that still run, as the begin of a sentence; empty without any."""
    lines = [line for line in observed.threads.splitlines() if line.startswith("process ")]
    names = [line.partition(": ")[2].partition(" ")[0] for line in lines]
    return f"still running: {', '.join(dict.fromkeys(names))}; " if names else ""


def _last_line(result: RunResult) -> str:
    """Return the last line of standard error, else of the output, as the end of a sentence."""
    errors = result.observed.errors.strip() if result.observed is not None else ""
    lines = (errors or result.output.strip()).splitlines()
    return f": {one_line(lines[-1].strip(), 100)}" if lines else ""
