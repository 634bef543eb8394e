"""Names of the archive's suites and packages, and of Python's, that guests are built from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from emu.guests.errors import LabError

SUITES = ("bookworm", "trixie", "sid")
DEFAULT_SUITE = "trixie"

# Debian Policy 5.6.7, but no "+" or "-" at the end: apt would read it as "install" or "remove".
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
_PYTHON_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(rf"{_PYTHON_NAME}(?:\[{_PYTHON_NAME}\])?(?:==[A-Za-z0-9.+!_-]+)?")
"""A name of PEP 508, with one extra and one version."""
WHEEL = ".whl"
# PEP 427: name, version, build, and the tags of Python, ABI and platform.
_WHEEL_NAME = re.compile(r"[\w.]+-[\w.+!]+(?:-\d\w*)?-[\w.]+-[\w.]+-[\w.]+\.whl", re.ASCII)


def check_packages(packages: Sequence[str]) -> None:
    """Raise :class:`LabError` for a bad package name, or one that begins with ``linux-image-``.

    Whether the archive has the package is not checked.
    """
    for name in packages:
        if not _PACKAGE_NAME.fullmatch(name):
            raise LabError(f"{name!r} is not the name of a Debian package")
        if name.startswith("linux-image-"):
            raise LabError(f"{name} would not be booted: --kernel and --modules choose the kernel")


def why_not_python(requirements: Sequence[str], wheels: Sequence[str]) -> str:
    """Return why words are not ``NAME`` or ``NAME==VERSION``, or names not those of wheels.

    Return "" if all are. Whether the index has a package is not checked.
    """
    for word in requirements:
        if word.endswith(WHEEL):
            return f"{word!r} is a wheel: --wheel, or wheels = [...] in a file, takes it"
        if not _REQUIREMENT.fullmatch(word):
            return f"{word!r} is not NAME or NAME==VERSION of a Python package"
    for name in wheels:
        if not _WHEEL_NAME.fullmatch(name):
            return f"{name!r} is not the name of a wheel"
    return ""
