"""The version of mlx5emu, and whether its device code is compiled."""

from __future__ import annotations

from importlib import metadata, util

UNKNOWN = "unknown"
PURE, COMPILED = "pure", "compiled"
_DEVICE = "emu.device.rounds.budget"
"""One of the modules that setup.py compiles; setup.py compiles all of them or none."""


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
