"""``--junit`` and ``--tap``, for commands that report test results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from emu.cli.options.groups import RESULTS, grouped_option
from emu.cli.shared.files import NewFile
from emu.guests.conformance.results import Case, junit, tap
from emu.host.userfiles import write_outfile

F = TypeVar("F", bound=Callable[..., Any])

_FILE = NewFile()


def results_options(function: F) -> F:
    """Add the options to a command, which gets them as ``junit_file`` and ``tap_file``."""
    for option in (
        grouped_option(RESULTS, "--tap", "tap_file", type=_FILE, help="Write the results as TAP."),
        grouped_option(
            RESULTS, "--junit", "junit_file", type=_FILE, help="Write the results as JUnit XML."
        ),
    ):
        function = option(function)
    return function


def write_results(cases: Sequence[Case], junit_file: Path | None, tap_file: Path | None) -> None:
    """Write ``cases`` to the files that are not None. Raises OSError."""
    for path, form in ((junit_file, junit), (tap_file, tap)):
        if path is not None:
            write_outfile(path, form(cases))
