"""Packs files of the host for a guest, and of a guest's proc, sysfs and the like, into an archive.

Files of such file systems announce no size, or a wrong one, so they are read before their header is
written. The host runs this file in a guest as a program: only the standard library is imported.
"""

from __future__ import annotations

import errno
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

Omit = Callable[[str, str], None]
"""Called with the name of a member that is left out, and the reason."""
LEFT_OUT = b"U"
"""Type of a member, without content, that a guest leaves out; its link name is the reason."""
NOT_COPIED = "not a file, directory or symbolic link"
_MAX_UNSIZED = 64 << 20
"""Maximum bytes of a file that announces no size; some, such as /proc/kcore, are endless."""
_MAX_PAGE = 64 << 10
"""Largest page of a processor: sysfs announces a page for each file."""
_READ_SIZE = 1 << 20


def pack(
    archive: tarfile.TarFile, source: Path, name: str, omit: Omit, *, is_pseudo: bool = False
) -> None:
    """Add ``source`` to ``archive`` as ``name``, with all below a directory; links stay links.

    ``omit`` is called for each member that is left out: sockets, pipes, devices, and files that
    announce no size and cannot be read. With ``is_pseudo`` no announced size is believed, modes
    are 644 and 755, and all that cannot be read is left out. Raises OSError of other files, and
    always of ``source`` itself.
    """
    _add(archive, source, name, omit, is_pseudo)
    if not source.is_symlink() and source.is_dir():
        _pack_below(archive, source, name, omit, is_pseudo)


def _pack_below(
    archive: tarfile.TarFile, folder: Path, name: str, omit: Omit, is_pseudo: bool
) -> None:
    """Add all below ``folder``; see :func:`pack` for what is left out."""
    for entry in sorted(os.listdir(folder)):
        path, member_name = folder / entry, f"{name}/{entry}"
        try:
            _add(archive, path, member_name, omit, is_pseudo)
            if not path.is_symlink() and path.is_dir():
                _pack_below(archive, path, member_name, omit, is_pseudo)
        except OSError as error:
            if not is_pseudo and not isinstance(error, _UnreadableError):
                raise
            omit(member_name, error.strerror or str(error))


class _UnreadableError(OSError):
    """A file without a size that could be opened, but not be read."""


def _add(archive: tarfile.TarFile, path: Path, name: str, omit: Omit, is_pseudo: bool) -> None:
    """Add one member; write nothing before an OSError of a file that announces no size."""
    member = archive.gettarinfo(path, name)
    # gettarinfo() returns None for a socket, which its annotation does not say.
    if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        omit(name, NOT_COPIED)
        return
    if is_pseudo:
        member.mode = 0o755 if member.isdir() else 0o644
        member.mtime = int(member.mtime)
    if not member.isreg():
        archive.addfile(member)
    elif is_pseudo or _has_no_size(path):
        with tempfile.SpooledTemporaryFile(_READ_SIZE) as content:
            member.size = _read(path, content)
            content.seek(0)
            archive.addfile(member, content)
    else:
        with open(path, "rb") as file:
            archive.addfile(member, file)


def _has_no_size(path: Path) -> bool:
    """Return whether a file of the host occupies no block, so that its size may be wrong."""
    status = path.stat()
    return status.st_blocks == 0 and status.st_size <= _MAX_PAGE


def _read(path: Path, content: IO[bytes]) -> int:
    """Write the bytes of ``path`` to ``content``, and return their number; never wait for more.

    Raises OSError if the file cannot be opened, and _UnreadableError if its bytes cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    size = 0
    try:
        while data := os.read(descriptor, _READ_SIZE):
            size += len(data)
            if size > _MAX_UNSIZED:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            content.write(data)
    except OSError as error:
        raise _UnreadableError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)
    return size


def main(source: str, name: str) -> int:
    """Write an archive of ``source`` as ``name`` to standard output; return an exit status.

    Errors of ``source`` itself are printed as tar prints them.
    """
    with tarfile.open(mode="w|", fileobj=sys.stdout.buffer) as archive:

        def omit(left_out: str, reason: str) -> None:
            member = tarfile.TarInfo(left_out)
            member.type, member.linkname = LEFT_OUT, reason
            archive.addfile(member)

        try:
            pack(archive, Path(source).resolve(), name, omit, is_pseudo=True)
        except OSError as error:
            sys.stderr.write(f"tar: {name}: Cannot read: {error.strerror or error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
