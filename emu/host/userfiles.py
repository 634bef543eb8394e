"""Files that the user names, perhaps in a directory that others may write to."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from emu.host.user_error import UserError
from emu.near import near

PART: Final = ".part"
"""End of the hidden name of a file that is being written."""
_MODE: Final = 0o644
_MAX_LISTED: Final = 10_000
"""Number of a directory's names that are searched for a near one."""


def missing_text(what: str, path: Path) -> str:
    """Return the sentence that no ``what`` is at ``path``, with near names of its directory.

    The near names are those of the first missing component of the path; none if that directory
    cannot be read. Does not check that the path is missing.
    """
    lost = path
    while not lost.parent.exists():
        lost = lost.parent
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(lost.parent) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MAX_LISTED)]
    return f"no {what} {path}{near(lost.name, names)}"


def why_not_writable(path: Path) -> str:
    """Return why no file can be written at ``path``, as text for the user; "" when one can.

    Writes nothing. An existing file may be overwritten; a directory may not.
    """
    if path.is_dir():
        return f"{path} is a directory"
    if path.exists():
        return "" if os.access(path, os.W_OK) else f"{path} is not writable"
    if not path.parent.exists():
        return missing_text("directory", path.parent)
    if not path.parent.is_dir():
        return f"{path.parent} is not a directory"
    return "" if os.access(path.parent, os.W_OK | os.X_OK) else f"{path.parent} is not writable"


def why_not_replaceable(path: Path) -> str:
    """Return why no new file can replace ``path``, as text for the user; "" when one can.

    A device, a pipe or a socket is not replaced. A missing file is fine.
    """
    is_other = path.exists() and not path.is_file()
    return f"{path} is not a regular file" if is_other else ""


def why_not_made(path: Path) -> str:
    """Return why no directory can be made at ``path``, as text for the user; "" when one can.

    Creates nothing. An existing directory is fine.
    """
    there = path
    try:
        while not there.exists():
            there = there.parent
    except OSError as error:
        return f"{path} cannot be made: {error.strerror}"
    if not there.is_dir():
        code = errno.EEXIST if there == path else errno.ENOTDIR
    elif there != path and not os.access(there, os.W_OK | os.X_OK):
        code = errno.EACCES
    else:
        return ""
    return f"{path} cannot be made: {os.strerror(code)}"


def open_outfile(path: Path, flags: int = 0) -> int:
    """Open a file, created if absent, and return the descriptor.

    ``flags`` are added to open(2)'s and must contain the access mode; O_TRUNC is the caller's
    choice. A symbolic link in a world-writable directory is not followed, because another user may
    have put it there: ELOOP, whatever fs.protected_symlinks is. Elsewhere (``/dev/stdout``) the
    link is trusted. Raises OSError.
    """
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_NOFOLLOW, _MODE)
    except OSError as error:
        if error.errno != errno.ELOOP or os.stat(path.parent).st_mode & stat.S_IWOTH:
            raise
    return os.open(path, flags, _MODE)


@contextlib.contextmanager
def replacing(path: Path, mode: int = _MODE) -> Iterator[Path]:
    """Yield a new, empty file beside ``path``, which replaces it once the body has succeeded.

    The new file has ``mode`` without the umask's bits. If the body or the replacing fails, the new
    file is removed, and the old one stays. Raises OSError.
    """
    part = path.with_name(f".{secrets.token_hex(8)}{PART}")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    try:
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_infile(path: Path, limit: int) -> bytes:
    """Return a file's content; raise UserError for more than ``limit`` bytes, and OSError."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise UserError(f"{path}: more than {limit >> 20} MiB")
    return data


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """Replace the file's text by the parts, in order, or create the file.

    Not atomic: an error leaves a part of the text. Raises OSError with the path, also for a
    symbolic link as :func:`open_outfile` does.
    """
    try:
        with open(open_outfile(path, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as error:  # errors of write and close name no file
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_outfile(path: Path, text: str) -> None:
    """Replace the file's text. Raises OSError as :func:`open_outfile` does."""
    write_parts(path, [text])
