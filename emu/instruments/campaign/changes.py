"""Compares the runs of a stored campaign with those that are requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emu.host.counted import counted
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, RunResult
from emu.instruments.campaign.expected import difference

_MAX_SHOWN = 60
_WORDS = {"guest": "guest", "command": "run", "plan_name": "plan"}
"""The matrix's keys of a description's fields, where they differ."""


def check_same(stored: Sequence[Description], asked: Sequence[Description], where: str) -> None:
    """Raise UserError, with the first differences, unless both have the same runs in one order.

    Expectations are not compared. ``where`` names the stored campaign in the message.
    """
    there, here = [{one.name: one for one in runs} for runs in (stored, asked)]
    new = [name for name in here if name not in there]
    gone = [name for name in there if name not in here]
    differing = [
        (name, fields)
        for name, one in here.items()
        if name in there and (fields := _differing(there[name], one))
    ]
    words = []
    if new:
        words.append(f"{counted(len(new), 'run')} of the matrix not in it, such as {new[0]}")
    if gone:
        words.append(f"{counted(len(gone), 'run')} not in the matrix, such as {gone[0]}")
    if differing:
        name, fields = differing[0]
        words.append(f"another {fields} of {counted(len(differing), 'run')}, such as {name}")
    if not words and list(there) != list(here):
        words.append("the same in another order")
    if words:
        raise UserError(
            f"{where} has a campaign with other runs ({'; '.join(words)}): choose another --out,"
            " or remove the directory"
        )


def _differing(one: Description, other: Description) -> str:
    """Return the matrix's keys of the fields that differ and their values, or an empty text."""
    words = []
    for field in Description.model_fields:
        before, now = getattr(one, field), getattr(other, field)
        if field != "expected" and before != now:
            key = _WORDS.get(field, field)
            is_short = isinstance(now, int | float | str) and "\n" not in f"{before}{now}"
            shown = (one_line(f"{value}", _MAX_SHOWN) for value in (now, before))
            words.append(f"{key} ({', not '.join(shown)})" if is_short else key)
    return ", ".join(words)


def compared_again(
    results: Mapping[str, RunResult], asked: Sequence[Description], before: Sequence[Description]
) -> list[RunResult]:
    """Return the results of runs whose expectation changed, compared with the new one.

    Results have no kernel log: one without an earlier expectation stays without a comparison with
    an expectation of the log. Raises UserError for another change of such an expectation.
    """
    old = {one.name: one.expected for one in before}
    changed = [one for one in asked if one.name in results and one.expected != old[one.name]]
    again = []
    for run in changed:
        result, otherwise = results[run.name], None
        if run.expected is not None:
            if not run.expected.ends and old[run.name] is None:
                continue
            if not run.expected.ends:
                raise UserError(
                    f"{run.name}: its [expect] changed, and the comparison needs the kernel's log"
                    f" of a new run: repeat it with --again {run.name}"
                )
            otherwise = difference(
                run.expected, result.ended, "", fired=result.fired, has_panicked=False
            )
        again.append(result.model_copy(update={"otherwise": otherwise}))
    return again
