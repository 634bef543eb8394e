"""Which version of mlx5emu this is."""

from __future__ import annotations

from importlib import metadata

UNKNOWN = "unknown"


def version() -> str:
    """The installed version, or ``unknown`` where nothing is installed."""
    try:
        return metadata.version("mlx5emu")
    except metadata.PackageNotFoundError:
        return UNKNOWN
