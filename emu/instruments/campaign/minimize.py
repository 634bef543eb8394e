"""The smallest plan that still brings a finding about: trials of one run with fewer faults."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from emu.device.faults.parser import dump
from emu.device.faults.record import RecordError, read
from emu.instruments.campaign.description import Description, RunResult
from emu.instruments.minimize.search import One, Search, minimize_faults

logger = logging.getLogger(__name__)

MAX_TRIALS = 60


def slug(title: str) -> str:
    """A finding's file name: its words, and a digest by which two with the same words differ."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    return f"{words}-{hashlib.sha256(title.encode()).hexdigest()[:8]}"


def minimize_plan(
    run: Description, record: str, title: str, carry_out: Callable[[Description], RunResult]
) -> str | None:
    """The plan as TOML; None when the record cannot be read or the finding does not come again.

    After :data:`MAX_TRIALS` trials it is the smallest so far.
    """
    try:
        # Trials begin their plan when the run did: what came during the run is there at once.
        recorded = replace(read(record, run.name), spans={})
    except RecordError as error:
        logger.warning("%s", error)
        return None

    def shows(faults: Sequence[One]) -> bool:
        result = carry_out(run.model_copy(update={"plan": dump(recorded.replayed(faults))}))
        return any(one.title == title for one in result.findings)

    search = Search[list[One]](shows, frozenset, MAX_TRIALS)
    best = search.run(partial(minimize_faults, recorded))
    if search.is_cut:
        logger.warning("%s: not the smallest plan, as %d trials were made", title, MAX_TRIALS)
    return None if best is None else dump(recorded.replayed(best))
