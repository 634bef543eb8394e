"""Which version of mlx5emu this is, and whether its device runs compiled."""

from __future__ import annotations

from importlib import metadata, util

UNKNOWN = "unknown"
PURE, COMPILED = "pure", "compiled"
_DEVICE = "emu.device.rounds.budget"
"""A module of those that setup.py compiles: all of them are, or none is."""


def version() -> str:
    """The installed version, or ``unknown`` where nothing is installed."""
    try:
        return metadata.version("mlx5emu")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def code() -> str:
    """What the device runs as: ``compiled`` by mypyc, or ``pure`` Python."""
    spec = util.find_spec(_DEVICE)
    is_pure = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return PURE if is_pure else COMPILED
