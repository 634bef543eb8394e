"""Fault plans in files."""

from __future__ import annotations

from pathlib import Path

import firmware_cmds  # noqa: F401  # declares the commands, whose fields the rules name
from emu.device.faults.parser import MAX_BYTES, PlanError, load
from emu.device.faults.plan import Plan
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile


def read_plan(path: Path) -> Plan:
    """Return the plan in a file.

    Raise UserError with the position of every mistake, and OSError.
    """
    return read_plan_text(path)[0]


def read_plan_text(path: Path) -> tuple[Plan, str]:
    """Return the plan in a file, named after the file if it has no name, and the file's text.

    Raises UserError for a file that is too long, not UTF-8, or has mistakes, each with its
    position. Raises OSError if the file cannot be read.
    """
    try:
        text = read_infile(path, MAX_BYTES).decode()
        plan = load(text, str(path))
    except PlanError as error:
        raise UserError(str(error)) from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8") from None
    return (plan if plan.name else plan.model_copy(update={"name": path.stem})), text


def read_plans(directory: Path) -> dict[str, Plan]:
    """Return every plan of a directory, by its file's name. Raises UserError."""
    return {path.stem: read_plan(path) for path in sorted(directory.glob("*.toml"))}
