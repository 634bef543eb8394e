"""Copies files into and out of a running guest, as tar archives through the pipes of commands.

A guest is not trusted. Only files, directories and symbolic links of its archive are made, and only
below the target. A member writes the bytes that its header announces, within the budget of the
whole copy. Sparse members and global headers are refused: the guest's tar is not asked for them,
and a small one can write a large file or use unlimited memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, NoReturn

from emu.guests.channel import frames
from emu.guests.channel.channel import GuestChannel
from emu.guests.channel.job import GuestJob
from emu.guests.errors import GuestError, LabError
from emu.guests.named.attach import at_command
from emu.host.printable import one_line, printable
from emu.host.userfiles import missing_text, why_not_writable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

Warn = Callable[[str], None]
_MODE = 0o777
_MAX_HEADER = 1 << 16
"""Maximum bytes of an extended header: a name, a link's target and some numbers."""
_MAX_LINK_BYTES = 256 << 20
"""Maximum bytes of one copy's symbolic links, which stay in memory until its end."""
_LINK_SIZE = 256
"""Bytes charged for a link beside its name and its target."""
_BLOCK_SIZE = 4096
"""Minimum bytes of disk charged for a file, directory or link."""
DEFAULT_MAX_SIZE = 16 << 30
"""Default limit in bytes on one copy out of a guest."""
_COMPLAINT = re.compile(r"^tar: (.*): Cannot [^:]*: (.*)$", re.MULTILINE)
_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_MAX_TRAILING_BYTES = 1 << 20
"""Maximum bytes after an archive's end: tar fills its last record, whose size users can choose."""


def copy_in(name: str, source: Path, target: str) -> None:
    """Copy a file or a directory to ``target`` in the guest, into it if it is a directory.

    Files belong to root there. Raises :class:`LabError` for a missing source or directory and for
    errors of the guest's tar, and OSError of the source.
    """
    if not source.exists():
        raise LabError(missing_text("file or directory", source))
    if not os.access(source, os.R_OK | (os.X_OK if source.is_dir() else 0)):
        raise LabError(f"{source} is not readable")
    source = source.resolve()
    with at_command(name) as channel:
        folder, base = target, source.name
        if not _is_directory(channel, target):
            folder, base = posixpath.split(target)
            if not base or (folder and not _is_directory(channel, folder)):
                raise LabError(f"{name} has no directory {folder if base else target}")
        words = ["tar", "--extract", "--no-same-owner", f"--directory={folder or '.'}"]
        job = channel.start("tar", words, {}, has_input=True)
        with tarfile.open(mode="w|", fileobj=_Input(job)) as archive:
            archive.add(source, arcname=base)
        job.close_input()
        _check(job, job.stderr, name, folder)


def copy_out(
    name: str, source: str, target: Path, warn: Warn, max_size: int = DEFAULT_MAX_SIZE
) -> None:
    """Copy a file or a directory of the guest to ``target``, into it if it is a directory.

    ``warn`` is called for each member left out: devices, sockets, pipes. Raises :class:`LabError`,
    also when the guest announces more than ``max_size`` bytes or sends an invalid archive, and
    OSError of the target. Files written before an error stay.
    """
    folder, base = posixpath.split(posixpath.normpath(source))
    if base in ("", ".", ".."):
        folder, base = source, "."
    elif target.is_dir():
        target /= base
    if not target.is_dir() and (why := why_not_writable(target)):
        raise LabError(why)
    words = ["tar", "--create", "--hard-dereference", f"--directory={folder or '.'}", "--", base]
    errors = bytearray()
    with at_command(name) as channel, _output(channel, words, errors) as (job, output):
        try:
            with tarfile.open(mode="r|", fileobj=output, tarinfo=_Member) as archive:
                _unpack(archive, base, target, warn, _Budget(max_size))
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


class _Budget:
    """Bytes of the host's disk that a copy may still use."""

    def __init__(self, max_size: int) -> None:
        self._max_size = self._left = max_size

    def charge(self, member: tarfile.TarInfo) -> None:
        """Subtract a member's size, at least 4 KiB, from the budget before the member is written.

        Raises GuestError for a negative size, or one above the rest of the budget.
        """
        if member.size < 0:
            raise GuestError(f"the guest sent {one_line(member.name)} of {member.size} bytes")
        size = max(member.size, _BLOCK_SIZE)
        if size > self._left:
            name = one_line(member.name)
            raise GuestError(f"{name} exceeds the {self._max_size >> 20} MiB of --max-size")
        self._left -= size


class _Member(tarfile.TarInfo):
    """A member of a guest's archive; refuses sparse files, global and long extended headers."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Process a header as tarfile does; ReadError for sparse, global and long headers."""
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        if self.type == tarfile.XGLTYPE:
            raise tarfile.ReadError("a global header")
        if self.type in (*_EXTENDED, tarfile.SOLARIS_XHDTYPE) and self.size > _MAX_HEADER:
            raise tarfile.ReadError(f"an extended header of {self.size} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member

    def _refuse_sparse(self, *_: object) -> NoReturn:
        raise tarfile.ReadError("a sparse member")

    # Versions of GNU's format in extended headers (tarfile.TarInfo._proc_pax).
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


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
        job = channel.start("tar", words, {}, sink=sink)
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
    return LabError(f"{name}:{posixpath.join(folder, path)}: {reason}{more}")


def _unpack(archive: tarfile.TarFile, base: str, target: Path, warn: Warn, budget: _Budget) -> None:
    """Write the archive's members below ``base`` to ``target``; replace existing files.

    Links are made at the end, and no path is resolved through one, not even another link's. Raises
    GuestError for a member outside ``base``, above the budget, or with too many links.
    """
    links: list[tuple[str, str]] = []
    link_bytes = 0
    while (member := archive.next()) is not None:
        # tarfile keeps all members, and a guest can send them for ever.
        archive.members.clear()  # type: ignore[attr-defined]
        path = _path_of(member.name, base, target)
        budget.charge(member)
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif member.issym():
            links.append((member.name, member.linkname))
            link_bytes += _LINK_SIZE + len(member.name) + len(member.linkname)
            if link_bytes > _MAX_LINK_BYTES:
                raise GuestError(f"the guest's symbolic links exceed {_MAX_LINK_BYTES >> 20} MiB")
        elif member.isreg():
            _write(archive, member, path)
        else:
            warn(f"{one_line(member.name)} is left out: not a file, directory or symbolic link")
    for member_name, to in links:
        path = _path_of(member_name, base, target)
        path.unlink(missing_ok=True)
        path.symlink_to(to)


def _path_of(name: str, base: str, target: Path) -> Path:
    """Return the host's path of the member ``name`` of an archive of ``base``; nothing is made.

    Raises GuestError for a member outside ``base``, and for a path through a symbolic link.
    """
    parts = PurePosixPath(name).parts
    rest = parts if base == "." else parts[1:]
    if ".." in parts or name.startswith("/") or (base != "." and parts[:1] != (base,)):
        raise GuestError(f"the guest sent {one_line(name)}, which was not requested")
    path = target
    for part in rest:
        path /= part
        if path.is_symlink():
            raise GuestError(
                f"{path} is a symbolic link; a guest's files are not written through links"
            )
    return path


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write a regular member to ``path``, with its time and permission bits.

    Set-user-ID and the like are dropped.
    """
    content = archive.extractfile(member)
    assert content is not None  # a regular file
    with open(path, "wb") as file:
        shutil.copyfileobj(content, file)
        os.fchmod(file.fileno(), member.mode & _MODE)
    os.utime(path, (member.mtime, member.mtime))
