"""Debian's headers of a kernel, with the compiler that they name, as a directory in the cache.

The headers of a release contain programs of their own suite and name a compiler of it, which the
host seldom has. The directory is therefore a root for ``make`` with all of them, unpacked from the
archive's packages. The packages' scripts do not run: nothing in it is configured, and no root is
needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress, bootstrap_files
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError
from emu.guests.kernel.archive import UNPACK_ONLY

_PROGRAMS = (
    *("base-files", "coreutils", "dash", "diffutils", "findutils", "grep", "kmod", "make", "mawk"),
    "sed",
)
"""Programs besides the compiler that the headers list as needed by the kernel's build."""
_FILES = re.compile(
    r"\./(?!usr/share/(doc|info|locale|man)/)((usr|etc|lib[0-9a-z]*|bin|sbin)(/.*)?)"
)
_AWK = 'ln -s mawk "$1/usr/bin/awk"'
"""Makes the link ``awk``, which update-alternatives makes in an installed system."""
_DISK_SPACE = DiskSpace(cached=1_070_000_000, tree=1_000_000_000)
_RELEASE = re.compile(r"[0-9][0-9a-z.+~-]*")


def ensure(
    release: str,
    suites: Sequence[str],
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Path:
    """Return the directory with the headers of a kernel's release (``uname -r``), fetched once.

    The directory is a root for chroot(2), with the compiler. The packages come from ``suites``;
    mmdebstrap's main suite is the last one. Raises LabError for another name or a failed download.
    """
    if not _RELEASE.fullmatch(release):
        raise LabError(f"Debian has no headers of kernel {release}")
    target = cache.subdir("headers") / release
    if not target.exists():
        with cache.lock(f"headers-{release}", on_wait):
            if not target.exists():
                with cache.building(target) as work:
                    _fetch(release, suites, work, progress)
    return target


def source(release: str) -> str:
    """Return the path of the headers below that directory, as an absolute path in it."""
    return f"/usr/src/linux-headers-{release}"


def _fetch(release: str, suites: Sequence[str], work: Path, progress: Progress | None) -> None:
    """Unpack headers, compiler and build programs of a release into ``work``.

    Raises LabError when the download fails or the package contains no headers.
    """
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
        space=_DISK_SPACE,
        progress=progress,
    )
    if not (work / source(release).lstrip("/") / "Makefile").is_file():
        raise LabError(f"Debian's header package of Linux {release} contains no headers")
