"""The version of mlx5emu, and whether its device code is compiled."""

from __future__ import annotations

from importlib import metadata, util

from emu.compiled.sources import DEVICE

UNKNOWN = "unknown"
PURE, COMPILED = "pure", "compiled"
_DEVICE = "emu.device.rounds.budget"
"""One of the modules that emu.compiled compiles: all of them are compiled, or none."""


def version() -> str:
    """Return the installed version, or ``unknown`` if the package is not installed."""
    try:
        return metadata.version("mlx5emu")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def code() -> str:
    """Return the form of the device code: ``compiled`` by mypyc, or ``pure`` Python."""
    spec = util.find_spec(_DEVICE)
    is_pure = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return PURE if is_pure else COMPILED


def code_line() -> str:
    """Return the form of the device code for users, with the hash of compiled code's sources."""
    return f"compiled ({DEVICE.key()})" if code() == COMPILED else "pure Python"
