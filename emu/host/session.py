"""The user's session: programs with one runtime directory, whose guests find each other by name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from emu.host.cache_root import cache_root

_FILE = "session"
_MAX_LENGTH = 4096


def runtime_directory() -> Path:
    """Return the session's directory: in XDG_RUNTIME_DIR, /run/user/UID, or else the cache.

    No other user can create it first, as it is never in a world-writable directory. The directory
    is not created here.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and os.path.isdir(base):
        return Path(base) / "mlx5emu"
    own = Path(f"/run/user/{os.getuid()}")
    with contextlib.suppress(OSError):
        if own.lstat().st_uid == os.getuid() and os.access(own, os.W_OK | os.X_OK):
            return own / "mlx5emu"
    return cache_root() / "names"


def note_session(directory: Path) -> None:
    """Write into a work directory to which session it belongs; ignore a full disk."""
    with contextlib.suppress(OSError):
        (directory / _FILE).write_bytes(os.fsencode(runtime_directory()))


def is_of_this_session(directory: Path) -> bool:
    """Return whether a work directory of this user belongs to this session, or to none."""
    try:
        with (directory / _FILE).open("rb") as file:
            return file.read(_MAX_LENGTH) == os.fsencode(runtime_directory())
    except OSError:
        return True
