"""Compiles the installed sources into the cache, at once or in the background.

An entry appears by a rename, after a process of its own has imported every module of the library.
Only one build runs at a time.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from emu.compiled.loading import FOLDER, NEVER, SETTING, entry
from emu.compiled.sources import BUILT, DEVICE, Sources
from emu.guests import cache
from emu.host.process_identity import module_command
from emu.host.shipped import is_checkout
from emu.host.user_error import UserError

KEPT = 4
"""Entries that a build leaves in the cache, the most recently used ones."""
_ROOM = 500_000_000  # bytes: C files, objects and the library
_TIMEOUT = 3600.0  # seconds
_EDITED = 600.0  # seconds
_LOCK = "compiled"
_FAILED = ".failed"
_LOG = "build-compiled.log"
_AUTOGROUP = Path("/proc/self/autogroup")
_DETACHED = 'nice -n 19 setsid "$@" >> "$0" 2>&1 < /dev/null &'


class _BusyError(Exception):
    """Another process builds."""


def missing() -> str:
    """Return what a build needs and this machine lacks, with the remedy; empty if nothing."""
    if not all(map(importlib.util.find_spec, ("mypyc", "setuptools"))):
        return "compiled code needs mypy: pip install 'mlx5emu[compiled]'"
    if _compiler() is None:
        return "compiled code needs a C compiler: apt-get install gcc libc6-dev"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "compiled code needs Python.h: apt-get install python3-dev"
    return ""


def failure(key: str) -> str:
    """Return why the last build of the sources with this hash failed; empty if none has."""
    with suppress(OSError):
        return (cache.subdir(FOLDER) / f"{key}{_FAILED}").read_text()
    return ""


def start() -> bool:
    """Begin a build in the background with the lowest priority; return whether one began.

    None begins if a tool, disk space or a cache is missing, if the last build of the same sources
    failed, if a clone's sources changed within ten minutes, or if the user chose pure Python.
    """
    if os.environ.get(SETTING) == NEVER or missing():
        return False
    with suppress(UserError, OSError, RuntimeError):  # RuntimeError: no home directory
        if is_checkout() and time.time() - DEVICE.changed() < _EDITED:
            return False
        cache.sweep()
        key, folder = DEVICE.key(), cache.subdir(FOLDER)
        is_full = shutil.disk_usage(folder).free < _ROOM
        if is_full or failure(key) or entry(key) is not None:
            return False
        words = ["sh", "-c", _DETACHED, str(_log()), *module_command("emu.compiled.building")]
        done = subprocess.run(words, env={**os.environ, SETTING: NEVER}, check=False)
        return done.returncode == 0
    return False


def build(sources: Sources = DEVICE, on_wait: Callable[[], None] | None = None) -> str:
    """Compile ``sources`` into the cache unless they are there; return their hash.

    ``on_wait`` is called once if another process builds; then its end is awaited. Raises UserError,
    with one line, without the tools, if a compiler fails, and if the disk is full. The line is kept
    for :func:`failure`.
    """
    if problem := missing():
        raise UserError(problem)
    folder = cache.subdir(FOLDER)
    with cache.lock(_LOCK, on_wait):
        key = sources.key()
        if entry(key) is not None:
            return key
        for interrupted in folder.glob(".*"):  # of any host and version: the lock is theirs, too
            shutil.rmtree(interrupted, ignore_errors=True)
        failed = folder / f"{key}{_FAILED}"
        try:
            with cache.building(folder / key) as made:
                _build_into(made, sources, key)
        except (OSError, UserError) as error:
            text = f"{error.strerror}" if isinstance(error, OSError) else str(error)
            with suppress(OSError):
                cache.save_text(failed, text)
            raise UserError(f"no compiled code: {text}") from error
        failed.unlink(missing_ok=True)
        remove(KEPT)
    return key


def remove(kept: int, current: str = "") -> int:
    """Remove entries but the ``kept`` last used and ``current``; return the bytes freed.

    Records of failed builds go as well. Processes that run a removed library keep it.
    """
    folder = cache.subdir(FOLDER)
    entries = [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    entries.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    freed = 0
    for path in [path for path in entries if path.name != current][kept:]:
        freed += cache.disk_usage(path)
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f"*{_FAILED}"):
        path.unlink(missing_ok=True)
    return freed


def _build_into(made: Path, sources: Sources, key: str) -> None:
    """Put the library of ``sources``, with its SHA-256 as the name, into the folder ``made``.

    A copy of the sources is compiled, so that no change during the build has an effect. Raises
    UserError and OSError.
    """
    work = made / "work"
    copy = _copied(sources, work)
    if copy.key() != key:
        raise UserError("a source changed meanwhile")
    _run("emu.compiled.translate", work, json.dumps({**asdict(copy), "root": ""}))
    (library,) = (work / BUILT).glob(f"{copy.library}*.so")
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    library.chmod(0o644)
    library.rename(made / f"{digest}.so")
    shutil.rmtree(work)


def _copied(sources: Sources, folder: Path) -> Sources:
    """Copy all files that are read into ``folder``; return the same sources with that root."""
    for name in sources.files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sources.root / name, target)
    return replace(sources, root=folder)


def _run(module: str, work: Path, *words: str) -> None:
    """Run a module of ours in the folder ``work``; its output goes to the log.

    Raises UserError, with the output's last line, if it fails or takes an hour.
    """
    environ = {**os.environ, SETTING: NEVER, "CC": _compiler() or "cc"}
    # The modules of ours come from here, the ones to compile from the current folder.
    ours = str(Path(__file__).parents[2])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", module, *words]
    with _log().open("w") as log:
        try:
            done = subprocess.run(
                command, cwd=work, env=environ, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, timeout=_TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UserError(f"the compiler took more than {_TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = _log().read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        raise UserError(f"{last} (log: {_log()})")


def _compiler() -> str | None:
    """Return the command of the C compiler: CC's, this Python's or cc; None if none is there."""
    for words in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        if words and shutil.which(shlex.split(words)[0]):
            return str(words)
    return None


def _log() -> Path:
    return cache.cache_dir() / _LOG


def _leave() -> None:
    raise _BusyError("another process compiles")


def main() -> None:
    """Build on processors that nothing else uses; leave at once if another process builds."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        # A session has a share of the processors, whatever the policy of its processes (sched(7)).
        if os.getsid(0) == os.getpid():
            _AUTOGROUP.write_text("19")
    try:
        build(on_wait=_leave)
    except _BusyError:
        return
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
