"""Location of the user's cache directory, and the check that no other user can write there."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_root() -> Path:
    """Return ``$XDG_CACHE_HOME/mlx5emu`` (default ``~/.cache/mlx5emu``), without creating it.

    A relative XDG_CACHE_HOME is ignored, as the XDG base directory specification demands.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "mlx5emu"


def untrusted(path: Path) -> str:
    """Return why others could place kernels and programs in ``path``; empty if they cannot.

    Named are a path that group or others may write, and one of another user. Root may use any
    user's path, and every user one of root's. Raises OSError if the path cannot be examined.
    """
    about = path.stat()
    # Root may use another user's, as in a container with that user's directory mounted.
    if os.getuid() not in (about.st_uid, 0) and about.st_uid != 0:
        return f"the cache directory {path} belongs to another user, {about.st_uid}"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"others may write to the cache directory {path}: `chmod -R go-w {path}` prevents it,"
            " if you trust its contents"
        )
    return ""
