"""Fetches Python packages for a guest image: wheels for its Python, unpacked by pip on the host.

The guest needs no network, and no program of the image runs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.guests.errors import LabError
from emu.host.user_error import WRONG_USE

MIN_GLIBC = 5
"""Minor version of the oldest glibc that a wheel can name (manylinux_2_5)."""
_OLD_NAMES = ("manylinux2014", "manylinux2010", "manylinux1", "linux")
"""Platforms of wheels besides manylinux_2_N."""
_STATUS_FIELD = re.compile(r"^(Package|Version): (?:\d+:)?(\S+)$", re.MULTILINE)
_NOT_FOUND = re.compile(r"^ERROR: No matching distribution found for (.+?)\s*$", re.MULTILINE)
_OFFERED = re.compile(r"\(from versions: (.+)\)")
_UNFIT_WHEEL = re.compile(r"^ERROR: (\S+\.whl) is not a supported wheel", re.MULTILINE)
_HAS_OTHER = re.compile(r"Skipping link: (none of the wheel's tags|No sources permitted)")
_NO_INDEX = re.compile(r"Could not fetch URL .*(connection error|certificate)|Retrying \(Retry")
_INTERPRETER = re.compile(rb"\A#!(?:/bin/sh\n'''exec' .*\n' '''|.*python.*)\n")
"""The first lines of a program that pip writes: the path of pip's own interpreter."""


class PipError(LabError):
    """Python packages that pip cannot get: a wrong name or version, or no wheel."""

    status = WRONG_USE


@dataclass(frozen=True)
class Python:
    """The Python of an image, as far as wheels depend on it."""

    version: str
    """Its major and minor number: 3.13."""
    glibc: int
    """Minor version of glibc 2."""
    machine: str
    """The processor, by the name of uname(1): x86_64."""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"Python {self.version} on {self.machine}"

    @property
    def pip_options(self) -> list[str]:
        """The options by which pip chooses wheels for it."""
        names = [f"manylinux_2_{minor}" for minor in range(self.glibc, MIN_GLIBC - 1, -1)]
        platforms = [f"--platform={name}_{self.machine}" for name in (*names, *_OLD_NAMES)]
        return [
            "--only-binary=:all:",
            "--implementation=cp",
            f"--python-version={self.version}",
            *platforms,
        ]


def python_of(status: str, machine: str) -> Python:
    """Return the Python of an image, by the text of its /var/lib/dpkg/status.

    Raises LabError for a file without python3 or libc6.
    """
    fields = iter(_STATUS_FIELD.findall(status))
    versions = {name: version for (_, name), (_, version) in zip(fields, fields, strict=False)}
    numbers = [re.match(r"(\d+)\.(\d+)", versions.get(name, "")) for name in ("python3", "libc6")]
    python, glibc = numbers
    if python is None or glibc is None:
        raise LabError("the image is damaged: no version of python3 or libc6 in its dpkg status")
    return Python(python[0], int(glibc[2]), machine)


def pack(words: Sequence[str], python: Python, work: Path, title: str, log: Path) -> Path:
    """Return a tar archive in ``work`` with the packages and all that they need, for the root.

    ``words`` are requirements (``numpy==2.3.1``) and paths of wheels; ``title`` is the image's name
    in messages. pip's output goes to ``log``. Raises LabError without pip, and PipError for an
    unknown name or version, or no wheel for this Python.
    """
    tree, archive = work / "python", work / "python.tar"
    _run_pip(["install", "--target", str(tree), *python.pip_options, *words], python, title, log)
    with tarfile.open(archive, "w") as tar:
        for path in sorted(tree.iterdir()):
            if path.name == "bin":
                _add_programs(tar, path)
            else:
                place = f"usr/local/lib/python{python.version}/dist-packages"
                tar.add(path, f"{place}/{path.name}", filter=_as_root)
    shutil.rmtree(tree)
    return archive


def _add_programs(tar: tarfile.TarFile, directory: Path) -> None:
    """Add the packages' programs, to be run by the guest's interpreter."""
    for path in sorted(one for one in directory.iterdir() if one.is_file()):
        content = path.read_bytes()
        path.write_bytes(_INTERPRETER.sub(b"#!/usr/bin/python3\n", content, count=1))
        path.chmod(0o755)
        tar.add(path, f"usr/local/bin/{path.name}", filter=_as_root)


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member with owner and group root."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _run_pip(arguments: Sequence[str], python: Python, title: str, log: Path) -> None:
    """Run pip until its end. Raises LabError if pip is missing, and PipError if pip fails."""
    log.unlink(missing_ok=True)
    command = [*_pip(), "--no-input", "--disable-pip-version-check", f"--log={log}", *arguments]
    result = subprocess.run(
        [*command, "--no-compile", "--progress-bar=off"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        # A user's settings that contradict --target.
        env=os.environ | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"},
        check=False,
    )
    if result.returncode != 0:
        whole = log.read_text(errors="replace") if log.exists() else ""
        why = why_failed(result.stderr, whole, python)
        raise PipError(f"Python packages of guest image {title}: {why}; all of it: {log}")


def _pip() -> list[str]:
    """Return the command of pip: that of our own Python, else one of PATH. Raises LabError."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if (program := shutil.which(name)) is not None:
            return [program]
    raise LabError("pip is not installed: python3 -m ensurepip, or apt-get install python3-pip")


def why_failed(errors: str, log: str, python: Python) -> str:
    """Return the reason of a failure of pip in words, by its standard error and verbose log."""
    if match := _UNFIT_WHEEL.search(errors):
        return f"{match[1]} is not for {python.title}"
    if match := _NOT_FOUND.search(errors):
        name, offered = match[1], _OFFERED.search(errors)
        if offered is not None and offered[1] != "none":
            newest = offered[1].rpartition(", ")[2]
            return f"no {name} for {python.title}; the newest there is {newest}"
        if _HAS_OTHER.search(log):
            return f"{name} has no wheel for {python.title}"
        if _NO_INDEX.search(log):
            return f"{name}: pip reaches no package index"
        return f"no package {name}"
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if "ERROR: " in line]
    return (lines or errors.strip().splitlines()[-1:] or ["no output of pip"])[0].strip()
