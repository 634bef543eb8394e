"""Copies files into and out of a running guest, as tar archives through the pipes of commands."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from emu.guests.channel import frames
from emu.guests.channel.channel import GuestChannel
from emu.guests.channel.job import GuestJob
from emu.guests.errors import GuestError, LabError
from emu.guests.named import packing
from emu.guests.named.attach import at_command
from emu.guests.named.packing import pack
from emu.guests.named.unpacking import CopyBudget, GuestMember, Warn, left_out, unpack
from emu.host.printable import one_line, printable
from emu.host.userfiles import missing_text, why_not_writable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_UNNAMED = ("", ".", "..")
_LOCATE = """stat -f -c %T -- "$1" 2>/dev/null || echo
readlink -n -f -- "$1" && exit
test -L "$1" && exit 2
exit 1"""
"""Prints the type of a path's file system, and the path without symbolic links.

Ends with 2 for a link whose target is missing.
"""
_PSEUDO = (
    "binfmt_misc", "bpf_fs", "cgroup2fs", "cgroupfs", "configfs", "debugfs", "efivarfs", "proc",
    "pstorefs", "securityfs", "selinux", "sysfs", "tracefs",
)  # fmt: skip
"""Types of file systems, as ``stat -f`` prints them, whose files announce no true size."""
_MAX_PATH = 4096
DEFAULT_MAX_SIZE = 16 << 30
"""Default limit in bytes on one copy out of a guest."""
_COMPLAINT = re.compile(r"^tar: (.*): Cannot [^:]*: (.*)$", re.MULTILINE)
_MAX_TRAILING_BYTES = 1 << 20
"""Maximum bytes after an archive's end: tar fills its last record, whose size users can choose."""


def copy_in(name: str, source: Path, target: str, warn: Warn) -> None:
    """Copy a file or a directory to ``target`` in the guest, into it if it is a directory.

    Files belong to root there. ``warn`` is called for each member left out: devices, sockets,
    pipes, and files of proc and the like that cannot be read. Raises :class:`LabError` for a
    missing source or directory and for errors of the guest's tar, and OSError of the source.
    """
    if not source.exists():
        raise LabError(missing_text("file or directory", source))
    if not os.access(source, os.R_OK | (os.X_OK if source.is_dir() else 0)):
        raise LabError(f"{source} is not readable")
    own_name, source = source.name, source.resolve()
    with at_command(name) as channel:
        folder, base = target, source.name if own_name in _UNNAMED else own_name
        if not _is_directory(channel, target):
            folder, base = posixpath.split(target)
            if not base or (folder and not _is_directory(channel, folder)):
                raise LabError(f"{name} has no directory {folder if base else target}")
        words = ["tar", "--extract", "--no-same-owner", f"--directory={folder or '.'}"]
        job = channel.start("tar", words, {}, has_input=True)
        with tarfile.open(mode="w|", fileobj=_Input(job)) as archive:
            pack(archive, source, base, lambda *about: warn(left_out(*about)))
        job.close_input()
        _check(job, job.stderr, name, folder)


def copy_out(
    name: str, source: str, target: Path, warn: Warn, max_size: int = DEFAULT_MAX_SIZE
) -> None:
    """Copy a file or a directory of the guest to ``target``, into it if it is a directory.

    A symbolic link as ``source`` is followed in the guest; links below a directory stay links.
    ``warn`` is called for each member left out: devices, sockets, pipes, and files of proc, sysfs
    and the like that cannot be read. Raises :class:`LabError`, also when the guest announces more
    than ``max_size`` bytes or sends an invalid archive, and OSError of the target. Files written
    before an error stay.
    """
    own_name = posixpath.basename(posixpath.normpath(source))
    if own_name not in _UNNAMED and target.is_dir():
        target /= own_name
    if not target.is_dir() and (why := why_not_writable(target)):
        raise LabError(why)
    errors = bytearray()
    with at_command(name) as channel, contextlib.ExitStack() as stack:
        kind, path = _located(channel, name, source)
        folder, base = posixpath.split(path)
        if base in _UNNAMED:
            folder, base = path, "."
        words = ["tar", "--create", "--hard-dereference", f"--directory={folder or '.'}"]
        words += ["--", base]
        if kind in _PSEUDO:
            program = Path(packing.__file__).read_text()
            # /proc/self is another process's by now: the program resolves the source itself.
            words = ["python3", "-I", "-c", program, source, base]
        job, output = stack.enter_context(_output(channel, words, errors))
        try:
            with tarfile.open(mode="r|", fileobj=output, tarinfo=GuestMember) as archive:
                unpack(archive, base, target, warn, CopyBudget(max_size))
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            # Beside its own errors, tarfile passes values of extended headers to int() and the
            # like, and reads the header after an extended one itself.
            if job.failure is not None:  # the guest has ended meanwhile
                raise job.failure from None
            raise (
                _complaint(errors, name, folder)
                or GuestError(f"{name} sent an invalid archive: {error}")
            ) from None
        if len(output.read(_MAX_TRAILING_BYTES)) == _MAX_TRAILING_BYTES:
            raise GuestError(f"{name} sent too many bytes after its archive")
        _check(job, errors, name, folder)


class _Input(io.RawIOBase):
    """A command's standard input, as a writable file."""

    def __init__(self, job: GuestJob) -> None:
        self._job = job

    def write(self, data: Buffer) -> int:
        view = memoryview(data)
        self._job.write(bytes(view))
        return view.nbytes


@contextlib.contextmanager
def _output(
    channel: GuestChannel, words: list[str], errors: bytearray
) -> Iterator[tuple[GuestJob, IO[bytes]]]:
    """Start a command in the guest; yield its job and its output, as a file, while the body runs.

    Standard error is added to ``errors``, up to 32 KiB. The command is killed at the end.
    """
    reader, writer = os.pipe()

    def sink(kind: int, data: bytes) -> None:
        if kind == frames.STDERR:
            errors.extend(data[: frames.CHUNK - len(errors)])
            return
        left = memoryview(data)
        while left:
            left = left[os.write(writer, left) :]

    def close_at_end() -> None:
        with contextlib.suppress(LabError, OSError):
            job.wait()
        os.close(writer)

    with open(reader, "rb") as file:
        job = channel.start(words[0], words, {}, sink=sink)
        waiter = threading.Thread(target=close_at_end, name="tar", daemon=True)
        waiter.start()
        try:
            yield job, file
        finally:
            file.close()
            job.kill()
            waiter.join()


def _is_directory(channel: GuestChannel, path: str) -> bool:
    return channel.start("test", ["test", "-d", path], {}).wait() == 0


def _located(channel: GuestChannel, name: str, source: str) -> tuple[str, str]:
    """Return the type of the file system of a guest's path, and the path without symbolic links.

    A missing path is returned as given, for tar to report. Raises LabError for a link whose target
    is missing, and GuestError for an invalid answer.
    """
    job = channel.start("readlink", ["sh", "-c", _LOCATE, "sh", source], {})
    status = job.wait()
    if status == 2:
        raise LabError(f"{name}:{source}: the target of the symbolic link is missing")
    if status:
        return "", posixpath.normpath(source)
    kind, _, path = bytes(job.stdout).decode("utf-8", "surrogateescape").partition("\n")
    if not path.startswith("/") or "\0" in path or len(path) > _MAX_PATH:
        raise GuestError(f"{name} sent an invalid path: {one_line(path)}")
    return kind, path


def _check(job: GuestJob, errors: bytearray, name: str, folder: str) -> None:
    """Wait for the guest's tar; raise the error that it reported if its status is not 0."""
    status = job.wait()
    if status:
        why = f"{job.name} in the guest ended with status {status}"
        raise _complaint(errors, name, folder) or GuestError(why)


def _complaint(errors: bytearray, name: str, folder: str) -> LabError | None:
    """Return (not raise) the error of the guest's tar, with a path in the guest and a reason.

    ``folder`` is the directory of tar's names. Return other errors unchanged, and None if tar has
    reported none.
    """
    text = printable(errors.decode(errors="replace")).strip()
    complaints = _COMPLAINT.findall(text)
    if not complaints:
        return GuestError(text) if text else None
    path, reason = complaints[0]
    more = f", and {len(complaints) - 1} more" if len(complaints) > 1 else ""
    return LabError(f"{name}:{posixpath.join(one_line(folder), path)}: {reason}{more}")
