"""Debian's headers of a kernel, with the compiler that they want, as a directory in the cache.

The headers of a release come with programs, and name a compiler, of their own suite, which the
host seldom has. So this is a root directory for ``make``, with all of that, unpacked from the
archive's packages. Their scripts are not run: nothing in it is configured, and it needs no root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress, bootstrap_files
from emu.guests.archive.disk_space import Room
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError
from emu.guests.kernel.archive import UNPACK_ONLY

_PROGRAMS = (
    *("base-files", "coreutils", "dash", "diffutils", "findutils", "grep", "kmod", "make", "mawk"),
    "sed",
)
"""What the kernel's build runs besides the compiler, of which the headers say that they need it."""
_FILES = re.compile(
    r"\./(?!usr/share/(doc|info|locale|man)/)((usr|etc|lib[0-9a-z]*|bin|sbin)(/.*)?)"
)
_AWK = 'ln -s mawk "$1/usr/bin/awk"'
"""The name is mawk's by update-alternatives, which no script has run."""
_ROOM = Room(cached=1_070_000_000, tree=1_000_000_000)
_RELEASE = re.compile(r"[0-9][0-9a-z.+~-]*")


def ensure(
    release: str,
    suites: Sequence[str],
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Path:
    """The directory with the headers of a kernel's release (``uname -r``), fetched once.

    The packages come from the suites, of which the last one is named last. Raises LabError.
    """
    if not _RELEASE.fullmatch(release):
        raise LabError(f"Debian has no headers of a kernel {release}")
    target = cache.subdir("headers") / release
    if not target.exists():
        with cache.lock(f"headers-{release}", on_wait):
            if not target.exists():
                with cache.building(target) as work:
                    _fetch(release, suites, work, progress)
    return target


def source(release: str) -> str:
    """Where the headers are below that directory, as an absolute path there."""
    return f"/usr/src/linux-headers-{release}"


def _fetch(release: str, suites: Sequence[str], work: Path, progress: Progress | None) -> None:
    bootstrap_files(
        [
            *UNPACK_ONLY,
            f"--extract-hook={_AWK}",
            f"--include={','.join((f'linux-headers-{release}', *_PROGRAMS))}",
        ],
        suites[-1],
        [*map(source_line, suites)],
        work,
        _FILES,
        what=f"headers of Linux {release}",
        log=cache.cache_dir() / "build-headers.log",
        room=_ROOM,
        progress=progress,
    )
    if not (work / source(release).lstrip("/") / "Makefile").is_file():
        raise LabError(f"Debian's package of headers of Linux {release} has none")
