"""The report of a failed test: its traceback, and the console of a guest that failed to boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.host.printable import printable
from emu.host.user_error import UserError
from emu.instruments.testing.watched import MAX_LINES

_PACKAGE = Path(__file__).parents[2]
_ENTRIES = tuple(
    _PACKAGE / name
    for name in ("guests/guest", "guests/channel", "server/control", "instruments/testing")
)
"""Folders of the functions that tests call: a guest's, and those of its control socket."""


def end_at_the_test(error: BaseException) -> None:
    """Cut the traceback of a UserError after the test's own line; leave other errors unchanged.

    Errors of guests are among them, and of rules and plans that the control socket refuses.
    """
    place = error.__traceback__
    if not isinstance(error, UserError) or place is None:
        return
    while place.tb_next is not None:
        if Path(place.tb_next.tb_frame.f_code.co_filename).parent in _ENTRIES:
            place.tb_next = None
            return
        place = place.tb_next


def add_console(report: pytest.TestReport, error: BaseException) -> None:
    """Add the console's last 40 lines to the report of a test whose guest failed to boot."""
    from emu.guests import GuestError

    if isinstance(error, GuestError) and error.console:
        lines = error.console.splitlines()[-MAX_LINES:]
        report.sections.append(("mlx5 console", printable("\n".join(lines))))
