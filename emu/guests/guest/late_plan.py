"""Fault plans that begin once the driver is up: they are not given to a server as it starts."""

from __future__ import annotations

from pathlib import Path

from emu.guests.errors import LabError
from emu.host.userfiles import read_infile


def late_plan(path: Path) -> str | None:
    """The text of a plan that begins once the driver is up; None for one that is there before.

    Raises :class:`LabError` for a plan with mistakes.
    """
    # Reading plans takes a tenth of a second to import, which few guests need.
    from emu.device.faults.plan import LOADED
    from emu.device.faults.text import MOST_BYTES, PlanError, load

    try:
        text = read_infile(path, MOST_BYTES).decode()
        return text if load(text, str(path)).when == LOADED else None
    except PlanError as error:
        raise LabError(str(error)) from None
    except UnicodeDecodeError:
        raise LabError(f"{path}: not UTF-8") from None
