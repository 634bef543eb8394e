"""Runs mmdebstrap(1) and reports its progress.

mmdebstrap itself chooses its mode: root mode for root, user namespaces for other users.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from emu.guests.archive.disk_space import TREES, DiskSpace, check_space
from emu.guests.errors import LabError

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with the current activity, the number of steps done, and the total (0: not known yet)."""

_STEPS_PER_PACKAGE = 3  # downloaded, unpacked, set up
_PACKAGE_STEP = re.compile(r"(Get:|Unpacking |Setting up )")
_PACKAGE_COUNT = re.compile(r"\d+ upgraded, (\d+) newly installed")
_STAGE = re.compile(r"I: ([\w -]+?)(?:\.\.\.)?$")
_PROXY = re.compile(r'(Acquire::(?:http|https)::[\w:.-]*Proxy[\w-]*) "(.*)";')


def bootstrap(
    arguments: Sequence[str],
    *,
    what: str,
    log: Path,
    space: DiskSpace | None = None,
    progress: Progress | None = None,
    pass_fds: Sequence[int] = (),
) -> None:
    """Run mmdebstrap with ``arguments`` and wait for its end; write its standard error to ``log``.

    Raises :class:`LabError` when mmdebstrap is not installed, fails (with its first error), or when
    the disk lacks ``space``. On any exception in this process, mmdebstrap gets SIGTERM and removes
    its files. ``pass_fds`` are descriptors that it inherits.

    mmdebstrap runs in its own session: on failure it sends SIGHUP to its process group, to end the
    processes that it has started. Our parent process must not be in that group.
    """
    program = shutil.which("mmdebstrap")
    if program is None:
        raise LabError("mmdebstrap is not installed: mlx5emu doctor says how to get it")
    if space is not None:
        check_space(what, space)
    options = [f"--aptopt={option}" for option in proxy_options()]
    # /tmp may be a small tmpfs; mmdebstrap needs a directory that every user can reach.
    environ = {"TMPDIR": TREES} | os.environ | {"LC_ALL": "C.UTF-8"}
    with (
        log.open("w") as out,
        subprocess.Popen(
            [program, "--verbose", *options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environ,
            pass_fds=pass_fds,
            start_new_session=True,
        ) as process,
    ):
        assert process.stderr is not None
        meter = BootstrapProgress(what, progress)
        try:
            for line in process.stderr:
                out.write(line)
                meter.feed(line.rstrip("\n"))
        except BaseException:
            # mmdebstrap waits for its children, which a terminal would interrupt as well.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            out.writelines(process.stderr)  # until it has cleaned up
            raise
    if process.returncode != 0:
        raise LabError(f"building {what} failed: {first_error(log.read_text())}; all of it: {log}")


def bootstrap_files(
    arguments: Sequence[str],
    suite: str,
    sources: Sequence[str],
    target: Path,
    retained: re.Pattern[str],
    *,
    what: str,
    log: Path,
    space: DiskSpace,
    progress: Progress | None = None,
) -> None:
    """Unpack into ``target`` the files of an mmdebstrap tree whose names match ``retained``.

    The names begin with ``./``. The tree arrives as a tar archive, which is deleted afterwards,
    because mmdebstrap in a user namespace can reach no directory of ours. Raises :class:`LabError`
    as :func:`bootstrap` does, and for a name that contains ``..``.
    """
    packed = target / "packages.tar"
    words = ["--format=tar", *arguments, suite, str(packed), *sources]
    bootstrap(words, what=what, log=log, space=space, progress=progress)
    with tarfile.open(packed) as tar:
        members = [member for member in tar if retained.fullmatch(member.name)]
        for member in members:
            if ".." in Path(member.name).parts:
                raise LabError(f"building {what} failed: {member.name} is outside the tree")
        if hasattr(tarfile, "tar_filter"):
            tar.extractall(target, members, filter="tar")
        else:  # Python before 3.11.4, for example Debian 12's
            tar.extractall(target, members)
    packed.unlink()


class BootstrapProgress:
    """Converts mmdebstrap's output lines to calls of a :data:`Progress`."""

    def __init__(self, what: str, progress: Progress | None) -> None:
        self._what = what
        self._progress = progress
        self._done = self._total = 0
        self._stage = "starting"

    def feed(self, line: str) -> None:
        """Update activity, steps done and total from a line of output; call the :data:`Progress`.

        Lines that announce no package count, package step or stage are ignored.
        """
        if match := _PACKAGE_COUNT.match(line):
            self._total += _STEPS_PER_PACKAGE * int(match[1])
        elif _PACKAGE_STEP.match(line):
            self._done += 1
        elif match := _STAGE.match(line):
            self._stage = match[1]
            logger.info("%s: %s", self._what, self._stage)
        else:
            return
        if self._progress is not None:
            self._progress(f"{self._what}: {self._stage}", self._done, self._total)


def first_error(log: str) -> str:
    """Return the log line that best explains a failure: the first error, else the last line.

    Return ``no output`` for an empty log. If one of our scripts fails, mmdebstrap reports only
    that; the line before has the reason.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for before, line in pairwise(["no output", *lines]):
        if line.startswith("E: command failed: "):
            return before
        if line.startswith(("E: ", "dpkg: error", "mke2fs: ")):
            return line.removeprefix("E: ")
    return (lines or ["no output"])[-1]


def proxy_options() -> list[str]:
    """Return the machine's proxy settings as options for apt, which mmdebstrap does not read.

    Return an empty list without a proxy or without the program apt-config.
    """
    program = shutil.which("apt-config")
    if program is None:
        return []
    dump = subprocess.run([program, "dump"], capture_output=True, text=True, check=False).stdout
    return [f'{name} "{value}"' for name, value in _PROXY.findall(dump) if value]
