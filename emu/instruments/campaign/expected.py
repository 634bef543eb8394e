"""What a run is expected to do, and in what it has done otherwise.

A fault plan says by its ``[expect]`` what a stock driver does about it. Of that a campaign compares
what does not depend on the command: the lines of the kernel's log, and whether it panics. The
matrix can name the ends of a plan's runs instead (``[[plan]] expect``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from emu.device.faults.plan import Plan
from emu.instruments.campaign.description import Ended, Expected

_STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\] ", re.M)


def expected(plan: Plan | None, ends: Sequence[str] | None) -> Expected | None:
    """Return what is expected of runs with a plan; None if neither it nor the matrix says.

    ``ends`` are the matrix's words. Raises ValueError for a line of the plan's that is no regular
    expression.
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
    return Expected(dmesg=tuple(plan.expect.dmesg), panics=plan.expect.panics)


def otherwise(wanted: Expected, ended: Ended, log: str, *, fired: int, has_panicked: bool) -> str:
    """Return in what a run differs from what was expected; empty if in nothing.

    ``log`` is the kernel's, or the console of a guest that is gone; ``fired`` counts faults.
    """
    if wanted.ends:
        words = " or ".join(one.value for one in wanted.ends)
        return "" if ended in wanted.ends else f"{ended.value}, not {words}"
    if not fired:
        return "no fault has fired"
    if has_panicked != wanted.panics:
        return f"the kernel has {'' if has_panicked else 'not '}panicked"
    lines = _STAMP.sub("", log).splitlines()
    missing = [one for one in wanted.dmesg if not any(re.search(one, line) for line in lines)]
    return f"the kernel has not logged {missing[0]}" if missing else ""
