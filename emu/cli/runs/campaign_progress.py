"""The progress of a campaign's runs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from emu.cli.shared.progress import Reminder
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.instruments.campaign.description import Ended, RunResult
from emu.instruments.campaign.drive import RunExecutor, drive
from emu.instruments.campaign.report import unfired
from emu.instruments.campaign.store import Store


def _described(result: RunResult) -> str:
    """Return a run's end and its findings, or the reason, in words."""
    titles = "; ".join(one.title for one in result.findings) or result.why
    return f"{', '.join(filter(None, (result.ended.value, unfired([result]))))} {titles}"


def drive_shown(
    store: Store,
    executor: RunExecutor,
    names: Collection[str] | None = None,
    describe: Callable[[RunResult], str] = _described,
) -> None:
    """Execute the missing runs among ``names``, by default among all, and show the progress.

    A terminal shows a progress bar and runs with findings; otherwise each run prints a line, with
    the words of ``describe``. Raises as :func:`emu.instruments.campaign.drive.drive` does.
    """
    screen = Console(stderr=True)
    counts: Counter[Ended] = Counter()
    reminder = Reminder(lambda text: screen.print(text, highlight=False, soft_wrap=True))
    with _bar(screen) as (bar, task), contextlib.closing(reminder):

        def tell(done: int, total: int, result: RunResult | None) -> None:
            if result is not None:
                counts[result.ended] += 1
            said = ", ".join(f"{count} {ended.value}" for ended, count in counts.items())
            if not screen.is_terminal:
                text = f"{done} of {counted(total, 'run')} done"
                reminder.begin(text, is_printed=result is not None)
            bar.update(task, completed=done, total=total, description=said or "runs")
            if result is not None and (not screen.is_terminal or result.findings):
                line = one_line(f"{result.name}: {describe(result)}".rstrip())
                screen.print(
                    f"{done}/{total} {line}", highlight=False, markup=False, emoji=False,
                    soft_wrap=True,
                )  # fmt: skip

        drive(store, executor, tell, names)


@contextlib.contextmanager
def _bar(screen: Console) -> Iterator[tuple[Progress, Any]]:
    """Hold a progress bar while the body runs; yield it with its task.

    Without a terminal the bar shows nothing.
    """
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )
    with bar:
        yield bar, bar.add_task("runs", total=None)
