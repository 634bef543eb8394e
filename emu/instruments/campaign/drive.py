"""Carries out what a campaign lacks, keeps each result as it comes, and tells how far it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from typing import Protocol

from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, Ended, RunResult
from emu.instruments.campaign.store import Store

MAX_ERRORS = 10
"""Runs in a row that cannot be carried out before a campaign gives up."""


class RunExecutor(Protocol):
    """Carries runs out somewhere."""

    def results(self, runs: Sequence[Description]) -> Generator[RunResult, None, None]:
        """The results as they come, in any order; closing the iterator ends what still runs."""
        ...


OnProgress = Callable[[int, int, RunResult | None], None]
"""Called with how many runs have a result, how many there are, and the last result."""


def drive(
    store: Store, executor: RunExecutor, tell: OnProgress, names: Collection[str] | None = None
) -> None:
    """Carry out the runs that have no result, or those of ``names``.

    Whatever it raises, or is interrupted by: what was finished has been kept.
    Raises UserError, and OSError on a full disk.
    """
    pending = store.pending(names)
    total = len(store.runs if names is None else names)
    done = total - len(pending)
    tell(done, total, None)
    errors = 0
    if not pending:
        return
    with closing(executor.results(pending)) as results:
        for result in results:
            store.put(result)
            done += 1
            tell(done, total, result)
            errors = errors + 1 if result.ended is Ended.ERROR else 0
            if errors >= MAX_ERRORS:
                raise UserError(f"{errors} runs in a row could not be carried out: {result.why}")
