"""Packs files of the host into a tar archive for a guest."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

Omit = Callable[[str, str], None]
"""Called with the name of a member that is left out, and the reason."""
NOT_COPIED = "not a file, directory or symbolic link"


def pack(archive: tarfile.TarFile, source: Path, name: str, omit: Omit) -> None:
    """Add ``source`` to ``archive`` as ``name``, with all below a directory; links stay links.

    ``omit`` is called for each member that is left out: sockets, pipes, devices. Raises OSError of
    the files.
    """
    _add(archive, source, name, omit)
    if not source.is_symlink() and source.is_dir():
        for entry in sorted(os.listdir(source)):
            pack(archive, source / entry, f"{name}/{entry}", omit)


def _add(archive: tarfile.TarFile, path: Path, name: str, omit: Omit) -> None:
    """Add one member."""
    member = archive.gettarinfo(path, name)
    # gettarinfo() returns None for a socket, which its annotation does not say.
    if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        omit(name, NOT_COPIED)
    elif member.isreg():
        with open(path, "rb") as file:
            archive.addfile(member, file)
    else:
        archive.addfile(member)
