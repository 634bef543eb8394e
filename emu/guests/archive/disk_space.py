"""Disk space that a build needs, compared with the free space before anything is fetched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emu.guests import cache
from emu.guests.errors import LabError
from emu.host.counted import decimal

TREES: Final = "/var/tmp"
"""Directory of mmdebstrap's trees unless TMPDIR names one: /tmp may be a small tmpfs."""


@dataclass(frozen=True)
class DiskSpace:
    """Maximum bytes that a build needs: the measured value plus a fifth."""

    cached: int
    """Bytes in the cache."""
    tree: int = 0
    """Bytes in mmdebstrap's own directory (TMPDIR), which is removed at the end."""


def check_space(what: str, space: DiskSpace) -> None:
    """Raise :class:`LabError` when the disks of cache and TMPDIR have less free than ``space``.

    Both needs are added up when the two directories are on one file system. No space is reserved.
    ``what`` names the build in the message.
    """
    cached, trees = cache.cache_dir(), Path(os.environ.get("TMPDIR", TREES))
    if not trees.is_dir() or cached.stat().st_dev == trees.stat().st_dev:
        _check(what, cached, space.cached + space.tree, "XDG_CACHE_HOME")
    else:
        _check(what, cached, space.cached, "XDG_CACHE_HOME")
        _check(what, trees, space.tree, "TMPDIR")


def free_bytes(path: Path) -> int:
    """Return the number of bytes that this user may still write in the file system of ``path``."""
    about = os.statvfs(path)
    blocks = about.f_bfree if os.geteuid() == 0 else about.f_bavail
    return blocks * about.f_frsize


def _check(what: str, path: Path, needed: int, variable: str) -> None:
    """Raise :class:`LabError`, naming ``variable``, when ``path`` has less than ``needed`` free."""
    free = free_bytes(path)
    if free < needed:
        raise LabError(
            f"{what} needs {decimal(needed)} in {path}, where {decimal(free)} are free: free some"
            f" (mlx5emu guest clean), or name another directory by {variable}"
        )
