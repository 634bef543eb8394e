"""The user's cache directory: guest images, an unpacked QEMU, compiled code, logs of runs, answers.

Its location follows the XDG base directory specification. Every file in it can be rebuilt, so
deleting any of it is safe while no guest runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from emu.guests.errors import LabError
from emu.host.cache_root import cache_root, untrusted

logger = logging.getLogger(__name__)

_RANDOM = r"\.[a-z0-9_]{8}"
"""Regular expression for the end of a name of tempfile.mkdtemp."""
KEPT_RUNS = 16  # log directories; creating a new one deletes older ones


def cache_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/mlx5emu`` (default ``~/.cache/mlx5emu``); create it when absent.

    A relative XDG_CACHE_HOME is ignored. Raises :class:`LabError` when the directory cannot be
    made, belongs to another user, or when group or others may write to it.
    """
    return _trusted(_made(cache_root()))


def subdir(name: str) -> Path:
    """Return a directory in the cache; create it when absent."""
    return _trusted(_made(cache_dir() / name))


def _trusted(path: Path) -> Path:
    """Return ``path``; raise :class:`LabError` if others could place kernels and programs there."""
    if problem := untrusted(path):
        raise LabError(problem)
    return path


def _made(path: Path) -> Path:
    """Create the directory ``path`` when absent, never group-writable; return ``path``.

    Raises :class:`LabError` when that fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():  # not writable for a group, whatever the umask
            path.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make the cache directory {path}: {error.strerror}") from error
    return path


@contextlib.contextmanager
def lock(name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the cache's lock ``name`` (flock(2) of a file in ``locks``) while the body runs.

    If another process or thread holds it, call ``on_wait`` once, then wait without a time limit.
    The kernel drops the lock when its holder dies, so none is ever stale.
    """
    path = subdir("locks") / name
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """Yield a new empty directory beside ``target``; if the body succeeds, rename it to ``target``.

    An existing ``target`` is deleted first. On failure the new directory is removed and ``target``
    is unchanged. The caller holds a lock for ``target``. A killed build leaves a directory with a
    temporary name, which :func:`sweep` deletes, or the next build of ``target`` on any host.
    """
    _made(target.parent)
    sweep()
    left = re.compile(rf"\.{re.escape(target.name)}(\.[A-Za-z0-9-]*)?{_RANDOM}")
    for path in target.parent.glob(".*"):
        if left.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
    work, held = _claimed(target)
    try:
        yield work
        if target.exists():
            shutil.rmtree(target)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(held)


def _claimed(target: Path) -> tuple[Path, int]:
    """Return a new directory beside ``target``, and its open descriptor, which locks it."""
    while True:
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.{_host()}.", dir=target.parent))
        held = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(held, fcntl.LOCK_EX)
        if work.exists():
            return work, held
        os.close(held)  # swept by another process before it was locked


def _host() -> str:
    """Return this host's name in letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9-]", "-", os.uname().nodename)


def sweep() -> dict[Path, int]:
    """Remove directories of builds whose process was killed; return them with their bytes.

    A directory that a build has locked stays, and so do those of other hosts with the same cache:
    another host does not see the lock of a directory. Other hidden directories are a user's.
    """
    swept = {}
    name = re.compile(rf"\..+\.{re.escape(_host())}{_RANDOM}")
    for path in sorted((*cache_dir().glob(".*"), *cache_dir().glob("*/.*"))):
        if not name.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # a file, one in use, or one that has just gone
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                swept[path] = disk_usage(path)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(held)
    return swept


def new_run_dir() -> Path:
    """Create and return an empty directory for one run's logs; its name contains our process ID.

    The oldest beyond :data:`KEPT_RUNS` are removed, except those whose process still runs, and so
    is what killed builds have left.
    """
    sweep()
    runs = subdir("runs")
    with lock("runs"):
        free = [path for path in runs.iterdir() if not _is_in_use(path)]
        free.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for old in free[KEPT_RUNS - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=runs))


def _is_in_use(run_dir: Path) -> bool:
    """Return whether its process, or another one that has reused its number, still runs."""
    return Path("/proc", run_dir.name.split("-")[1]).exists()


def disk_usage(path: Path) -> int:
    """Return the bytes that a file or a tree occupies on disk (images are sparse); 0 if absent.

    Symbolic links are not followed. Files that another process removes meanwhile do not count.
    """
    if path.is_symlink() or not path.is_dir():
        return _occupied(path)
    return sum(
        _occupied(os.path.join(place, name))
        for place, directories, files in os.walk(path)
        for name in (*directories, *files)
    )


def _occupied(path: str | Path) -> int:
    """Return the bytes that one file occupies on disk; 0 if it is absent.

    Links are not followed.
    """
    try:
        return os.lstat(path).st_blocks * 512
    except FileNotFoundError:
        return 0


def load_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in ``path``; an empty one if the file is absent or invalid."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def save_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object atomically, by :func:`save_text`."""
    save_text(path, json.dumps(value, indent=1))


def save_text(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file atomically, with ``mode``: a reader sees either the old or the new one.

    Raises OSError; the old file is then unchanged.
    """
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        try:
            file.write(text)
            file.close()
            Path(file.name).chmod(mode)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
