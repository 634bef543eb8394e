"""Room on the disk that a build takes, compared with what is free before anything is fetched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emu.guests import cache
from emu.guests.errors import LabError

TREES: Final = "/var/tmp"
"""Where mmdebstrap makes its trees unless TMPDIR says otherwise: /tmp may be a small tmpfs."""


@dataclass(frozen=True)
class Room:
    """Bytes that a build takes at its most, as was measured, and a fifth more."""

    cached: int
    """In the cache."""
    tree: int = 0
    """In mmdebstrap's directory of its own (TMPDIR), which goes at the end."""


def check_space(what: str, room: Room) -> None:
    """Refuse to begin ``what`` where the disk is too full for it. Raises :class:`LabError`."""
    cached, trees = cache.cache_dir(), Path(os.environ.get("TMPDIR", TREES))
    if not trees.is_dir() or cached.stat().st_dev == trees.stat().st_dev:
        _check(what, cached, room.cached + room.tree, "XDG_CACHE_HOME")
    else:
        _check(what, cached, room.cached, "XDG_CACHE_HOME")
        _check(what, trees, room.tree, "TMPDIR")


def free_bytes(path: Path) -> int:
    """Return the bytes that this user may still write in the file system of ``path``."""
    about = os.statvfs(path)
    blocks = about.f_bfree if os.geteuid() == 0 else about.f_bavail
    return blocks * about.f_frsize


def _check(what: str, path: Path, needed: int, variable: str) -> None:
    free = free_bytes(path)
    if free < needed:
        from rich.filesize import decimal  # which only a full disk needs

        raise LabError(
            f"{what} takes {decimal(needed)} in {path}, where {decimal(free)} are free: make room"
            f" (mlx5emu guest clean), or name another directory by {variable}"
        )
