"""Minimizes the plan behind a finding: repeats one run with fewer faults."""

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
    """Return a finding's file name: the words of its title and a digest that makes it unique."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
    return f"{words}-{hashlib.sha256(title.encode()).hexdigest()[:8]}"


def minimize_plan(
    run: Description, record: str, title: str, carry_out: Callable[[Description], RunResult]
) -> str | None:
    """Return the smallest plan found, as TOML, whose run still has the finding ``title``.

    Return None if the record cannot be read or the finding does not appear again. ``carry_out`` is
    called up to :data:`MAX_TRIALS` times; a plan that may not be minimal then is logged.
    """
    try:
        # Faults recorded while the run was under way are loaded at the start of a trial.
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
        logger.warning("%s: plan may not be minimal: limit of %d trials reached", title, MAX_TRIALS)
    return None if best is None else dump(recorded.replayed(best))
