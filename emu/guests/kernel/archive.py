"""Kernels by name in Debian's archive: the packages of a name, and their download.

mmdebstrap unpacks the packages in its own directory and returns them as an archive. For users other
than root it runs in a user namespace, where it can reach none of their directories.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES, NATIVE, Architecture, is_native
from emu.guests.archive.bootstrap import Progress, bootstrap_files
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError

PREFIX = "debian:"
FLAVOURS = tuple(dict.fromkeys(name for one in ARCHITECTURES.values() for name in one.flavours))
"""Flavours of any architecture."""
_VERSION = re.compile(r"\d+(\.\d+){1,2}")
_SUITES = ("bookworm", "trixie", "trixie-backports", "sid", "experimental")
_FILES = re.compile(r"\./(boot|(usr/)?lib/modules)/.*")
_KNOWN = r"(?m)^kernel: linux-image-(\d+(?:\.\d+){1,2})[-+.~0-9a-z]*"
_DISK_SPACE = DiskSpace(cached=280_000_000, tree=470_000_000)
_FEW = 4

UNPACK_ONLY = (
    "--variant=extract",
    '--aptopt=Acquire::Languages "none"',
    '--aptopt=APT::Install-Recommends "false"',
    '--aptopt=Acquire::Check-Valid-Until "false"',
)
"""mmdebstrap's arguments for a kernel's packages, which are unpacked and not installed.

Debian's archive may be an old snapshot, so the expiry of its Release file is not checked, as for
images.
"""


def suites_of(name: str, suite: str) -> tuple[str, ...]:
    """Return the suites to search: all five for a version (``6.12``), ``suite`` for a flavour."""
    return _SUITES if _VERSION.fullmatch(name) else (suite,)


def package_pattern(name: str, arch: Architecture = NATIVE) -> str:
    """Return an extended regular expression that matches the names of a kernel's packages.

    ``name`` is a flavour of the architecture (``rt``, ``cloud``) or a version. Raises LabError for
    another word.
    """
    if name in arch.flavours:
        return f"linux-image-{name}{arch.kernel_suffix}"
    if not _VERSION.fullmatch(name):
        raise LabError(_no_name(name, arch))
    version = name.replace(".", "[.]")
    return f"linux-image-{version}([.+~][0-9a-z.+~]*)?(-(rc)?[0-9]+)?{arch.kernel_suffix}"


def fetch(
    name: str, suite: str, work: Path, progress: Progress | None, arch: Architecture = NATIVE
) -> None:
    """Unpack boot files and modules of the newest kernel of that name into ``work``.

    Raises LabError when the name is invalid, no package matches, or mmdebstrap fails.
    """
    pattern, suites = package_pattern(name, arch), suites_of(name, suite)
    script = resources.files(__package__).joinpath("newest.sh").read_text()
    log = cache.cache_dir() / "build-kernel.log"
    bootstrap_files(
        [
            *UNPACK_ONLY,
            *(() if is_native(arch) else (f"--architectures={arch.debian}",)),
            f"--extract-hook={script.replace('@PATTERN@', pattern)}",
        ],
        suites[-1],
        [*map(source_line, suites)],
        work,
        _FILES,
        what=f"kernel {PREFIX}{name}",
        log=log,
        space=_DISK_SPACE,
        progress=progress,
    )
    if not any(work.iterdir()):
        raise LabError(_no_kernel(name, suites, log.read_text(errors="replace"), arch))


def _no_name(name: str, arch: Architecture) -> str:
    """Return the message for a word that is neither a flavour nor a version."""
    version = _VERSION.match(name)
    near = [version[0]] if version else difflib.get_close_matches(name, arch.flavours)
    named = [f"{PREFIX}{flavour}" for flavour in arch.flavours]
    meant = f"; did you mean {PREFIX}{near[0]}?" if near else ""
    there = ", or ".join(filter(None, (", ".join(named), f"a version such as {PREFIX}6.12")))
    whose = "" if arch is NATIVE else f" of {arch.name}"
    return f"no kernel {PREFIX}{name}{whose}: {there}{meant}"


def _no_kernel(name: str, suites: Sequence[str], log: str, arch: Architecture) -> str:
    """Return the message for a name without a kernel; ``log`` has the archive's names."""
    names = {match[1] for match in re.finditer(f"{_KNOWN}{arch.kernel_suffix}$", log)}
    there = sorted(names | {".".join(one.split(".")[:2]) for one in names}, key=_numbers)
    near = sorted(there, key=lambda one: _distance(one, name))[:_FEW]
    words = ", ".join(f"{PREFIX}{one}" for one in sorted(near, key=_numbers))
    return f"no kernel {PREFIX}{name} in {', '.join(suites)}" + f"; near it: {words}" * bool(words)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _distance(one: str, other: str) -> list[int]:
    """Return the distance between two versions; earlier numbers weigh more."""
    pairs = zip((*_numbers(one), 0, 0), (*_numbers(other), 0, 0), strict=False)
    return [abs(left - right) for left, right in pairs]
