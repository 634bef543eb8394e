"""Compares a run with its expectation.

``[expect]`` of a fault plan says what a stock driver does. A campaign compares the items that do
not depend on the command: lines of the kernel's log, and a panic. The matrix can declare the ends
of a plan's runs instead (``[[plan]] expect``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from emu.device.faults.plan import Plan
from emu.instruments.campaign.description import Ended, Expected

_STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\] ", re.M)


def expected(plan: Plan | None, ends: Sequence[str] | None) -> Expected | None:
    """Return the expectation for runs with a plan; None if neither plan nor matrix has one.

    ``ends`` are the words of the matrix, which override the plan. Raises ValueError for a dmesg
    line of the plan that is not a regular expression.
    """
    if ends is not None:
        return Expected(ends=tuple(Ended(word) for word in ends))
    if plan is None or plan.expect is None or not (plan.expect.dmesg or plan.expect.panics):
        return None
    for line in plan.expect.dmesg:
        try:
            re.compile(line)
        except re.error as error:
            raise ValueError(f"[expect] dmesg: {line!r}: {error}") from None
    needs_fault = bool(plan.rule) or not plan.link
    return Expected(
        dmesg=tuple(plan.expect.dmesg), panics=plan.expect.panics, needs_fault=needs_fault
    )


def difference(wanted: Expected, ended: Ended, log: str, *, fired: int, has_panicked: bool) -> str:
    """Return the first difference between a run and its expectation; empty if there is none.

    A run without any fired fault differs, unless ``wanted`` only lists ends or needs none. ``log``
    is the kernel's log, or the console of a lost guest; ``fired`` counts faults.
    """
    if wanted.ends:
        words = " or ".join(one.value for one in wanted.ends)
        return "" if ended in wanted.ends else f"{ended.value}, not {words}"
    if not fired and wanted.needs_fault:
        return "no fault has fired"
    if has_panicked != wanted.panics:
        return "the kernel panicked" if has_panicked else "the kernel did not panic"
    lines = _STAMP.sub("", log).splitlines()
    missing = [one for one in wanted.dmesg if not any(re.search(one, line) for line in lines)]
    return f"the kernel did not log {missing[0]}" if missing else ""
