"""Unpacks a guest's tar archive on the host.

A guest is not trusted. Only files, directories and symbolic links of its archive are made, and only
below the target. A member writes the bytes that its header announces, within the budget of the
whole copy. Sparse members and global headers are refused: the guest's tar is not asked for them,
and a small one can write a large file or use unlimited memory.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NoReturn

from emu.guests.errors import GuestError
from emu.guests.named.packing import LEFT_OUT, NOT_COPIED
from emu.host.printable import one_line

Warn = Callable[[str], None]
_MODE = 0o777
_MAX_HEADER = 1 << 16
"""Maximum bytes of an extended header: a name, a link's target and some numbers."""
_MAX_LINK_BYTES = 256 << 20
"""Maximum bytes of one copy's links and new directories, which stay in memory until its end."""
_LINK_SIZE = 256
"""Bytes charged for a link or a new directory beside its name and its target."""
_BLOCK_SIZE = 4096
"""Minimum bytes of disk charged for a file, directory or link."""
_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)


class CopyBudget:
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


class GuestMember(tarfile.TarInfo):
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


def unpack(
    archive: tarfile.TarFile, base: str, target: Path, warn: Warn, budget: CopyBudget
) -> None:
    """Write the archive's members below ``base`` to ``target``; replace existing files.

    Links are made at the end, and no path is resolved through one, not even another link's. New
    directories get their permission bits after that; existing ones keep theirs. Raises GuestError
    for a member outside ``base``, above the budget, or with too many links or directories.
    """
    links: list[tuple[str, str]] = []
    folders: list[tuple[str, int]] = []
    link_bytes = 0
    while (member := archive.next()) is not None:
        # tarfile keeps all members, and a guest can send them for ever.
        archive.members.clear()  # type: ignore[attr-defined]
        path = _path_of(member.name, base, target)
        budget.charge(member)
        if member.issym() or (member.isdir() and not path.is_dir()):
            link_bytes += _LINK_SIZE + len(member.name) + len(member.linkname)
            if link_bytes > _MAX_LINK_BYTES:
                limit = f"{_MAX_LINK_BYTES >> 20} MiB"
                raise GuestError(f"the guest's symbolic links and directories exceed {limit}")
        if member.isdir():
            if not path.is_dir():
                # A private directory is private from the start, and writable until the end.
                path.mkdir(member.mode & _MODE | stat.S_IRWXU)
                folders.append((str(path), member.mode & _MODE))
        elif member.issym():
            links.append((member.name, member.linkname))
        elif member.isreg():
            _write(archive, member, path)
        else:
            reason = member.linkname if member.type == LEFT_OUT else NOT_COPIED
            warn(left_out(member.name, reason))
    for member_name, to in links:
        path = _path_of(member_name, base, target)
        path.unlink(missing_ok=True)
        path.symlink_to(to)
    for folder, mode in reversed(folders):
        os.chmod(folder, mode)


def left_out(name: str, reason: str) -> str:
    """Return the warning about a member that is not copied, of either direction."""
    return f"{one_line(name)} is left out: {one_line(reason)}"


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

    Set-user-ID and the like are dropped. A device or pipe of the host keeps its own time and bits.
    """
    content = archive.extractfile(member)
    assert content is not None  # a regular file
    with open(path, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), member.mode & _MODE)
            os.utime(file.fileno(), (member.mtime, member.mtime))
