"""Prints which faults have fired, had no effect, have not fired, or fired again; and the links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from emu.cli.shared.control import function_name
from emu.cli.shared.link_text import counts_of, properties_of
from emu.cli.shared.notice import notice
from emu.host.counted import counted
from emu.host.printable import one_line


def tell_idle(rules: Iterable[Mapping[str, Any]]) -> None:
    """Print the rules whose action had no effect at some event so far, and why.

    Rules that matched no event are not printed.
    """
    for rule in rules:
        for count in rule["counts"]:
            if count.get("without_effect"):
                notice(one_line(f"{rule['name']} has had no effect: {count['why']}"))


def tell_unfired(control: Path) -> None:
    """Print the rules of a running server that have not fired, and the packet counts of its links.

    Each rule is printed with the number of its matched events. Print nothing if the server has
    ended or does not answer.
    """
    from emu.server.control.client import Client, ControlError

    try:
        with Client(control) as client:
            rules, links = client.rules(), client.links()
    except ControlError:
        return
    for rule in rules:
        matched, fired = (sum(one[name] for one in rule["counts"]) for name in ("met", "fired"))
        if not fired:
            events = "no event"
            if matched:
                alone = [str(one["met"]) for one in rule["counts"]]
                each = f" ({', '.join(alone)} by function)" if len(alone) > 1 else ""
                events = f"{counted(matched, 'event')}{each}, and fires at none of them"
            notice(one_line(f"{rule['name']} has not fired: it matched {events}"))
    for link in links:
        where = f"function {function_name(link)} {link['direction']}"
        notice(f"link of {where} ({properties_of(link)}): {counts_of(link, ' packets')}")


def tell_fired(path: Path) -> None:
    """Print the faults of a run's record: fired, and without effect.

    Print nothing for a plan of links only. Print a warning if the record cannot be read.
    """
    from emu.device.faults import record
    from emu.host.user_error import UserError
    from emu.host.userfiles import read_infile

    try:
        text = read_infile(path, record.MAX_BYTES).decode(errors="replace")
        recorded = record.read(text, str(path))
    except (OSError, UserError, record.RecordError):
        notice(f"cannot read the record of the faults: {path}")
        return
    fired = Counter(one.rule for one in recorded.fired)
    for name, why in dict.fromkeys(
        (one.rule, one.without_effect) for one in recorded.without_effect
    ):
        notice(one_line(f"{name} has had no effect: {why}"))
    if fired:
        names = ", ".join(f"{name} {counted(count, 'time')}" for name, count in fired.items())
        notice(one_line(f"faults that have fired: {names}: {path}"))
    elif recorded.plan.rule or not recorded.plan.link:
        notice(f"no fault has fired: {path}")


def tell_again(again: int, recorded: int, links: int) -> None:
    """Print how many of a record's faults fired again in its replay, or that it has only links.

    ``links`` is the number of the record's links.
    """
    if not recorded:
        only = f" only {counted(links, 'link')}, which the replay has set" if links else ""
        notice(f"the record has{only or ' no fault that fired'}")
        return
    faults = counted(recorded, "fault")
    which = f"{again} of {faults}"
    if again >= recorded:
        which = f"all {faults}" if recorded > 1 else "the fault"
    notice(f"{which} fired again")
