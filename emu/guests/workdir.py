"""Directories for a run's temporary files: sockets, an initramfs, a plan.

Each directory is locked (flock) while its process lives, however the process ends. Making a new
directory removes those that killed processes left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from emu.host.session import note_session

PREFIX = "mlx5emu-run-"


@contextlib.contextmanager
def work_directory() -> Iterator[Path]:
    """Hold a new private directory, locked by flock(2), while the body runs; remove it at the end.

    Directories that dead processes of this user left behind are removed first.
    """
    _sweep()
    path, lock = _make()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _make() -> tuple[Path, int]:
    """Make a private, locked directory; return it and the descriptor that holds its lock.

    The directory notes the user's session.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _locked(path, fcntl.LOCK_EX)
        if lock is not None:
            note_session(path)
            return path, lock


def _locked(path: Path, how: int) -> int | None:
    """Return a descriptor that holds the flock of ``path``; None when that is missing or in use.

    Return None too for another user's directory. ``how`` is flock's operation; the caller closes
    the descriptor.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(lock)
        if about.st_uid == os.getuid():
            fcntl.flock(lock, how)
            # Another process may have removed it before we held the lock.
            if os.path.samestat(about, path.lstat()):
                return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _sweep() -> None:
    """Remove the work directories whose processes have died; skip those that are locked."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
