"""Names of the archive's suites and packages that guests are built from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from emu.guests.errors import LabError

SUITES = ("bookworm", "trixie", "sid")
DEFAULT_SUITE = "trixie"

# Debian Policy 5.6.7, but no "+" or "-" at the end: apt would read it as "install" or "remove".
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")


def check_packages(packages: Sequence[str]) -> None:
    """Raise :class:`LabError` for a bad package name, or one that begins with ``linux-image-``.

    Whether the archive has the package is not checked.
    """
    for name in packages:
        if not _PACKAGE_NAME.fullmatch(name):
            raise LabError(f"{name!r} is not the name of a Debian package")
        if name.startswith("linux-image-"):
            raise LabError(f"{name} would not be booted: --kernel and --modules choose the kernel")
