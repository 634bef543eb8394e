"""Carries out a campaign's pending runs, stores each result, reports progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from typing import Protocol

from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, Ended, RunResult
from emu.instruments.campaign.store import Store

MAX_ERRORS = 10
"""Consecutive runs with :attr:`Ended.ERROR` after which a campaign stops."""


class RunExecutor(Protocol):
    """Carries runs out, locally or on a cluster."""

    def results(self, runs: Sequence[Description]) -> Generator[RunResult, None, None]:
        """Yield results in order of completion; closing the iterator ends running guests."""
        ...


OnProgress = Callable[[int, int, RunResult | None], None]
"""Called with the number of results, the number of runs, and the last result."""


def drive(
    store: Store, executor: RunExecutor, tell: OnProgress, names: Collection[str] | None = None
) -> None:
    """Carry out the runs without a result, or those of ``names``; store each result and report it.

    Runs that have a result other than ERROR are skipped. Raises UserError after :data:`MAX_ERRORS`
    consecutive ERROR results, and OSError on a full disk; stored results stay.
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
                raise UserError(f"{errors} consecutive runs could not be carried out: {result.why}")
