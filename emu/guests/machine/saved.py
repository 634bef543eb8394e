"""Saved boots in the cache: found by all inputs of the boot, evicted by last use.

:mod:`emu.guests.guest.saved_boot` defines and makes them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from emu.guests import cache
from emu.guests.machine.command_line import Machine, arguments

KEPT = 8
"""Number of saved boots in the cache; the least recently used are removed."""
_KNOWN = 64
"""Number of machines recorded as booted, or as impossible to save."""
_BOOTED, _FAILED = "booted", "failed"


@dataclass(frozen=True)
class SavedBoot:
    """A saved boot in the cache."""

    path: Path

    @property
    def memory(self) -> Path:
        """The guest's memory and the state of its machine, in QEMU's migration format."""
        return self.path / "memory"

    def remove(self) -> None:
        """Delete it; guests already resumed from it do not need it."""
        shutil.rmtree(self.path, ignore_errors=True)


def name_of(suite: str, bare: Machine) -> str:
    """Return the suite and a hash of all inputs of a saved boot: initrd, command line, files.

    Time and size of the files count, because a rebuilt image keeps its disks' names.
    """
    digest = hashlib.sha256(bare.initrd.read_bytes())
    words = arguments(replace(bare, initrd=Path("initrd")))
    files = (bare.kernel, *bare.disks, *map(Path, bare.qemu.command))
    stamps = [(path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.is_file()]
    digest.update(repr((bare.qemu.version, words, stamps)).encode())
    return f"{suite}-{digest.hexdigest()[:12]}"


def place_of(name: str) -> Path:
    """Return the path of the saved boot of that name, present or not."""
    return cache.subdir("boots") / name


def find(name: str) -> SavedBoot | None:
    """Return the saved boot of that name and mark it used; None if the cache has none."""
    saved = SavedBoot(place_of(name))
    if not saved.memory.exists():
        return None
    try:
        os.utime(saved.path)
    except FileNotFoundError:  # another process has just evicted it
        return None
    return saved


def should_save(name: str) -> bool:
    """Return whether this machine has booted before and is not recorded as impossible to save."""
    return bool(cache.load_json(_store()).get(name) == _BOOTED)


def note_booted(name: str) -> None:
    """Record that a guest of this machine has booted; keep an earlier recorded failure."""
    if name not in cache.load_json(_store()):
        _note(name, _BOOTED)


def note_failure(name: str) -> None:
    """Record that guests of this machine cannot be saved and boot from the start."""
    _note(name, _FAILED)


def remove_oldest() -> None:
    """Delete the least recently used saved boots, beyond :data:`KEPT`."""
    boots = sorted(_all(), key=_last_use, reverse=True)
    for old in boots[KEPT:]:
        SavedBoot(old).remove()


def disk_usage() -> tuple[int, int]:
    """Return the number of saved boots in the cache, and their size in bytes."""
    boots = _all()
    return len(boots), sum(map(cache.disk_usage, boots))


def remove_all(suites: Collection[str] = ()) -> int:
    """Delete the saved boots of ``suites``, by default all; return the number of bytes freed.

    The records of booted and failed machines of all suites are deleted as well.
    """
    freed = 0
    for path in _all():
        if not suites or path.name.partition("-")[0] in suites:
            freed += cache.disk_usage(path)
            SavedBoot(path).remove()
    _store().unlink(missing_ok=True)
    return freed


def _last_use(path: Path) -> float:
    """Return the time of the last use; the epoch if another process has removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _all() -> list[Path]:
    return [path for path in cache.subdir("boots").iterdir() if not path.name.startswith(".")]


def _note(name: str, what: str) -> None:
    known = cache.load_json(_store())
    others = [other for other in known if other != name][: _KNOWN - 1]
    cache.save_json(_store(), {name: what} | {other: known[other] for other in others})


def _store() -> Path:
    return cache.cache_dir() / "boots.json"
