"""The shared directory of a guest: its paths on both sides, and why a command there did not run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from emu.guests.architecture import ARCHITECTURES

SHARE = "/mnt/share"
"""Where the guest mounts the shared directory."""
NOT_FOUND = 127
"""Status of a command that the guest does not have, the same as a shell's."""

NOT_EXECUTABLE = 126
"""Status of a command that is not executable, the same as a shell's."""

_SHELL_ERROR = re.compile(r"^sh: \d+: (.{1,200}): (not found|Permission denied)\s*\Z", re.MULTILINE)

ELF_HEAD_BYTES: Final = 20
"""Bytes of an ELF file that :func:`other_processor` needs."""
_ELFDATA2MSB: Final = 2
_MACHINES: Final[Mapping[str, tuple[tuple[int, str], ...]]] = {
    "amd64": ((62, "little"), (3, "little")),  # EM_X86_64, EM_386
    "armhf": ((40, "little"),),  # EM_ARM; before arm64, as the first that fits is named
    "arm64": ((183, "little"), (40, "little")),  # EM_AARCH64, EM_ARM
    "ppc64el": ((21, "little"),),  # EM_PPC64
    "riscv64": ((243, "little"),),  # EM_RISCV
    "s390x": ((22, "big"),),  # EM_S390
}
"""The e_machine and byte order of programs that a processor runs, by Debian's name of it."""


def of_host(path: str, share: Path) -> Path | None:
    """Return the host's path of a path in the guest; None outside the shared directory."""
    inside = Path(os.path.normpath(path))
    return share / inside.relative_to(SHARE) if inside.is_relative_to(SHARE) else None


def _shared_file(word: str, share: Path | None, cwd: str | None) -> Path | None:
    """Return the host's path of a command's word in the guest; None outside ``share``."""
    return None if share is None else of_host(os.path.join(SHARE, cwd or "", word), share)


def not_executable(word: str, path: Path) -> str:
    """Return how a command that names the file ``path`` of the host as ``word`` can run it."""
    return f"{word}: not executable: chmod +x {path}"


def how_executable(word: str, share: Path | None, cwd: str | None = None) -> str:
    """Return how the guest can execute the file of the shared directory that ``word`` names.

    ``share`` and ``cwd`` are those of :func:`how_found`. Return an empty text for an executable
    file, and for one that is not there.
    """
    file = _shared_file(word, share, cwd)
    if file is None or not file.is_file() or os.access(file, os.X_OK):
        return ""
    return not_executable(word, file)


def how_found(
    word: str, share: Path | None, cwd: str | None = None, option: str = "--share {}"
) -> str:
    """Return how the guest finds the host's file ``word``, which a command did not find there.

    ``share`` is the shared directory, ``cwd`` the command's directory in it, and ``option`` shares
    a directory. Return an empty text for a file that the host lacks.
    """
    if os.sep not in word:
        file = _shared_file(word, share, cwd)
        if file is None or not file.is_file():
            return ""
        how = (
            f"./{word} runs it" if os.access(file, os.X_OK) else f"not executable: chmod +x {file}"
        )
        return f"{word} is a file of the shared directory: {how}"
    path = Path(word)
    if not path.is_file():
        return ""
    resolved = path.resolve()
    if share is not None and resolved.is_relative_to(share.resolve()):
        how = f"the guest sees it as {Path(SHARE) / resolved.relative_to(share.resolve())}"
        if not os.access(resolved, os.X_OK):
            how += "; it is not executable"
    else:
        how = f"share its directory: {option.format(resolved.parent)}"
    return f"{word} was not found in the guest: {how}"


def why_foreign(word: str, share: Path | None, arch: str, cwd: str | None = None) -> str:
    """Return that ``word`` is a program of another processor than that of an ``arch`` guest.

    ``share`` and ``cwd`` are those of :func:`how_found`. Return an empty text for a program of the
    guest's processor, for a file that is no ELF program or not shared, and for a word without a
    slash, which the guest looks up by PATH.
    """
    path = _shared_file(word, share, cwd) if os.sep in word else None
    try:
        head = b"" if path is None else _head(path)
    except OSError:
        return ""
    debian = ARCHITECTURES[arch].debian
    what = other_processor(head, debian)
    if not what:
        return ""
    return f"{word} is a program of {what}, and the guest is {debian}: build it for the guest"


def other_processor(head: bytes, debian: str) -> str:
    """Return for which processor an ELF file is, unless guests of ``debian`` execute its code.

    ``head`` has the file's first bytes. Return an empty text for code of the guest, and for a file
    that is no ELF file.
    """
    if len(head) < ELF_HEAD_BYTES or not head.startswith(b"\x7fELF"):
        return ""
    order: Literal["little", "big"] = "big" if head[5] == _ELFDATA2MSB else "little"
    number = int.from_bytes(head[18:20], order)
    if (number, order) in _MACHINES[debian]:
        return ""
    theirs = next((name for name, known in _MACHINES.items() if (number, order) in known), "")
    return theirs or f"another processor (ELF machine {number})"


def _head(path: Path) -> bytes:
    """Return the first bytes of a regular file; none of another one."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(ELF_HEAD_BYTES)


def not_run_by_shell(output: str) -> tuple[str, int] | None:
    """Return the command that a shell's last message says it could not run, and its status.

    Return None for an output with another end.
    """
    found = _SHELL_ERROR.search(output)
    if found is None:
        return None
    return found[1], NOT_FOUND if found[2] == "not found" else NOT_EXECUTABLE


def how_run(
    command: str | Sequence[str],
    status: int,
    output: str,
    share: Path | None,
    cwd: str | None,
    arch: str,
) -> str:
    """Return how a command of a Python program can run that ended with 127 or 126.

    ``output`` is its standard error, ``cwd`` that of :func:`how_found`, ``arch`` the guest's. A
    program of another processor ends with any status but 0. Return an empty text for another
    status, and where the host's files do not explain it.
    """
    first = command.split()[:1] if isinstance(command, str) else command[:1]
    if status and first and (why := why_foreign(first[0], share, arch, cwd)):
        return why
    if status not in (NOT_FOUND, NOT_EXECUTABLE):
        return ""
    word = command[0] if not isinstance(command, str) else ""
    if isinstance(command, str):
        named = not_run_by_shell(output)
        if named is None:
            return ""
        word, status = named
    if status == NOT_FOUND:
        return how_found(word, share, cwd, option='share="{}"')
    return how_executable(word, share, cwd)
