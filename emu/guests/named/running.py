"""Named guests: which of them run, and where their sockets are.

Each name has a directory below the user's own runtime directory, with a socket for each guest
(:mod:`emu.guests.named.exec_server`) and ``info.json``. The process that runs the guests holds a
lock of the name while it lives, so the lock says whether they run, however the process ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES, NATIVE
from emu.guests.errors import LabError
from emu.host.cache_root import cache_root
from emu.host.session import runtime_directory
from emu.model_words import given_text
from emu.near import near

INFO = "info.json"
SHARES = "shares"
"""Key of the shared directories in that file, by the names of the guests."""
ARCHES = "arches"
"""Key of the architectures in that file, by the names of guests of another one than the host's."""
TRACE = "trace"
"""Key of the resolved path that the guests' server writes a trace to, if it writes one."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_LOCK_SUFFIX = ".lock"


@dataclass(frozen=True)
class RunningEntry:
    """One name: the process that runs its guests, and what its ``info.json`` says."""

    name: str
    path: Path
    info: Mapping[str, Any]

    @property
    def pid(self) -> int:
        """Process ID of the process that runs the guests; 0 until it has written it."""
        pid = self.info.get("pid")
        return pid if isinstance(pid, int) else 0

    @property
    def guests(self) -> list[str]:
        """Names of the guests that accept commands; empty while they start."""
        return [str(name) for name in self.info.get("guests", [])]

    def socket(self, guest: str) -> Path:
        """Return the socket of one of the guests."""
        return self.path / f"{guest}.sock"


def full_names(guest: str) -> list[str]:
    """Return the full names ``LAB/GUEST`` of the labs' guests of this name."""
    return [
        f"{entry.name}/{guest}"
        for entry in entries()
        if guest in entry.guests and guest != entry.name
    ]


def check_name(name: str) -> None:
    """Raise :class:`LabError` unless ``name`` has 1 to 32 letters, digits, ``.``, ``_``, ``-``.

    The first is a letter or digit. Whether the name is in use is not checked.
    """
    if not _NAME.fullmatch(name):
        raise LabError(
            f"{given_text(name)} is not a valid name: 1 to 32 letters, digits, dots, dashes and"
            " underscores; the first is a letter or digit"
        )


def directory() -> Path:
    """Return the runtime directory, which belongs to this user alone; create it when absent.

    Raises :class:`LabError` if it cannot be made, belongs to another user, or is open to others.
    """
    path = _place()
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        about = path.lstat()
    except OSError as error:
        raise LabError(
            f"cannot make {path}: {error.strerror}; set XDG_RUNTIME_DIR to a directory of yours"
        ) from error
    if not stat.S_ISDIR(about.st_mode):
        wrong = "is not a directory"
    elif about.st_uid != os.getuid():
        wrong = f"belongs to user {about.st_uid}, not to you"
    elif about.st_mode & 0o077:
        wrong = f"is open to others (mode {stat.S_IMODE(about.st_mode):04o}, not 0700)"
    else:
        return path
    raise LabError(f"{path} {wrong}; a directory that belongs to you alone is needed")


def _place() -> Path:
    """Return the runtime directory's path; create the cache if the directory is in it."""
    path = runtime_directory()
    if path.parent == cache_root():
        cache.cache_dir()
    return path


class NameClaim:
    """A name that this process holds; its directory is empty at first, and removed with the block.

    Raises :class:`LabError` when the name is in use. A forked process holds the name too, until it
    ends.
    """

    def __init__(self, name: str) -> None:
        check_name(name)
        _sweep()
        self.path = directory() / name
        self._name = name
        self._lock = self._locked()
        self._clear()
        self.path.mkdir(mode=0o700)

    def __enter__(self) -> NameClaim:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
        _lock_path(self._name).unlink(missing_ok=True)
        self.hand_over()

    def hand_over(self) -> None:
        """Release name and directory to the forked processes."""
        self._lock.close()

    def _locked(self) -> IO[bytes]:
        """Return the lock's file, locked; retry when its previous holder has removed the file.

        Raises LabError at once if another process holds the name.
        """
        while True:
            lock = _lock_file(self._name, os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(_lock_path(self._name))):
                    return lock
            except BlockingIOError:
                lock.close()
                why = f"{self._name} is already running: mlx5emu down {self._name} ends it"
                raise LabError(why) from None
            except FileNotFoundError:
                pass
            lock.close()

    def _clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _sweep() -> None:
    """Remove the directories of killed ``run-PID`` names, whose lock no process holds."""
    for path in directory().glob(f"run-*{_LOCK_SUFFIX}"):
        name = path.name.removesuffix(_LOCK_SUFFIX)
        if not re.fullmatch(r"run-\d+", name):
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), _lock_file(name) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory() / name, ignore_errors=True)
            path.unlink()


def entries() -> list[RunningEntry]:
    """Return the names whose lock a process holds, sorted; their guests may still be starting."""
    result = []
    for lock in sorted(directory().glob(f"*{_LOCK_SUFFIX}")):
        name = lock.name.removesuffix(_LOCK_SUFFIX)
        if _NAME.fullmatch(name) and is_held(name):
            path = directory() / name
            result.append(RunningEntry(name, path, cache.load_json(path / INFO)))
    return result


def find(name: str, advice: str = "give {}") -> RunningEntry:
    """Return the running entry of that name, or of the name of its only guest.

    Raises :class:`LabError`, which lists the others. For a guest of a lab with several, ``advice``
    says what to do with the lab's name.
    """
    running = entries()
    for entry in running:
        if entry.name == name:
            return entry
    if "/" in name or any(name in entry.guests for entry in running):
        entry, _ = resolve(name)
        if len(entry.guests) == 1:
            return entry
        how = advice.format(entry.name)
        raise LabError(f"{name} is a guest of the lab {entry.name}: {how}")
    names = [entry.name for entry in running]
    known = f"running: {', '.join(names)}" if names else "no guest runs; mlx5emu up starts one"
    raise LabError(f"no guest or lab named {name} is running{near(name, names)}; {known}")


def share_of(name: str) -> Path | None:
    """Return the host's directory that a guest shares; None without one, or for several guests.

    Raises :class:`LabError` as :func:`resolve` does.
    """
    path = _of_guest(name, SHARES)
    return Path(path) if isinstance(path, str) else None


def arch_of(name: str) -> str:
    """Return the architecture of a guest, as in ``--arch``; that of the host for several guests.

    Raises :class:`LabError` as :func:`resolve` does.
    """
    arch = _of_guest(name, ARCHES)
    return arch if isinstance(arch, str) and arch in ARCHITECTURES else NATIVE.name


def _of_guest(name: str, key: str) -> object:
    """Return what the table ``key`` of ``info.json`` has of one guest; None without."""
    entry, guest = resolve(name)
    table = entry.info.get(key, {})
    only = entry.guests[0] if len(entry.guests) == 1 else ""
    return table.get(guest or only) if isinstance(table, dict) else None


def find_guest(name: str) -> Path:
    """Return the socket of the guest that :func:`resolve` finds.

    Raises :class:`LabError`, also for the name of a lab with several guests.
    """
    entry, guest = resolve(name)
    if not guest and len(entry.guests) == 1:
        guest = entry.guests[0]
    if not guest:
        raise LabError(f"{name} is a lab: choose one of {_choices(entry)}")
    return entry.socket(guest)


def resolve(name: str) -> tuple[RunningEntry, str]:
    """Return the entry of a name, and the guest in it; "" when the name is a whole lab's.

    ``name`` is that of a guest or a lab, ``LAB/GUEST``, or the name of a guest that only one lab
    has. Raises :class:`LabError` for an unknown or ambiguous name, and while the lab is starting.
    """
    lab, _, guest = name.partition("/")
    running = entries()
    if not guest and not any(entry.name == name for entry in running):
        labs = [entry for entry in running if name in entry.guests]
        if len(labs) > 1:
            raise LabError(f"{name} is {' or '.join(f'{entry.name}/{name}' for entry in labs)}")
        if labs:
            return labs[0], name
    entry = find(lab)
    if not entry.guests:
        raise LabError(f"{lab} is still starting")
    if guest and guest not in entry.guests:
        raise LabError(f"no guest {name}: choose one of {_choices(entry)}")
    return entry, guest


def _choices(entry: RunningEntry) -> str:
    return ", ".join(f"{entry.name}/{guest}" for guest in entry.guests)


def is_held(name: str) -> bool:
    """Return whether a live process holds that name's lock; False if the lock is absent."""
    try:
        with _lock_file(name) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _lock_path(name: str) -> Path:
    return directory() / f"{name}{_LOCK_SUFFIX}"


def _lock_file(name: str, flags: int = 0) -> IO[bytes]:
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(_lock_path(name), flags, 0o600), "r+b")
