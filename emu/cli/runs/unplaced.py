"""Prints why the virtual functions of a guest could not be used."""

from __future__ import annotations

import contextlib
from pathlib import Path

from emu.cli.shared.notice import notice
from emu.host.printable import one_line


def tell_unplaced(log: Path | None) -> None:
    """Print the lines of a server's log about virtual functions without a place.

    Print nothing without a log, or if the log cannot be read.
    """
    from emu.server.service.vf_placement import NO_PLACE

    if log is None:
        return
    with contextlib.suppress(OSError), log.open(errors="replace") as lines:
        for line in lines:
            _, found, why = line.partition(NO_PLACE)
            if found:
                notice(one_line(found + why.rstrip()))
