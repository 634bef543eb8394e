"""Directories for what a run needs while it lasts: sockets, an initramfs, a plan.

One that a killed process has left behind goes when the next is made: each is locked (flock) for as
long as its process lives, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "mlx5emu-run-"


@contextlib.contextmanager
def work_directory() -> Iterator[Path]:
    """A new directory of ours alone, removed at the end."""
    _sweep()
    path, lock = _make()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _make() -> tuple[Path, int]:
    """A directory, and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _locked(path, fcntl.LOCK_EX)
        if lock is not None:
            return path, lock


def _locked(path: Path, how: int) -> int | None:
    """A descriptor with the lock of our own directory; None when it has gone, or is in use."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(lock)
        if about.st_uid == os.getuid():
            fcntl.flock(lock, how)
            # Another process may have swept it away before we had the lock.
            if os.path.samestat(about, path.lstat()):
                return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _sweep() -> None:
    """Remove what processes that have died have left behind."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
