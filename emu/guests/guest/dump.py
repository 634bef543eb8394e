"""A guest's memory in a file for crash(8) and drgn: on request, or when the guest panics.

QEMU writes it (``dump-guest-memory``) in kdump's format, compressed and without zero pages. The
file has the kernel's VMCOREINFO if the guest's kernel has reported it to QEMU, by its module
qemu_fw_cfg.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from emu.guests.errors import GuestError
from emu.host.userfiles import replacing, why_not_replaceable

FORMAT = "kdump-raw-zlib"
_UTSNAME_AT = 12
_UTSNAME_FIELD = 65
_HEADERS = 1 << 20
_RELEASE = re.compile(rb"OSRELEASE=([!-~]{1,64})\n")


def write(execute: Callable[..., object], path: Path) -> None:
    """Write the guest's memory to ``path`` by QMP's ``execute``, mode 0600; replace an old file.

    On failure no new file remains. Raises GuestError when QEMU refuses or the file cannot be
    written, and at once for a device or a pipe, where QEMU could not seek.
    """
    if why := why_not_replaceable(path):
        raise GuestError(why)
    try:
        with replacing(path, 0o600) as part:
            execute("dump-guest-memory", paging=False, protocol=f"file:{part}", format=FORMAT)
            with part.open("r+b") as file:
                complete(file)
    except OSError as error:
        raise GuestError(f"{path}: {error.strerror}") from error


def complete(file: BinaryIO) -> None:
    """Write struct new_utsname into the header: QEMU omits it, and drgn needs it.

    The header has it after signature and version (makedumpfile, diskdump_mod.h). The release is
    VMCOREINFO's, or "unknown" without one.
    """
    release = _RELEASE.search(file.read(_HEADERS))
    names = (
        "Linux",
        "guest",
        release[1].decode() if release else "unknown",
        "#1",
        "x86_64",
        "none",
    )
    file.seek(_UTSNAME_AT)
    file.write(b"".join(name.encode().ljust(_UTSNAME_FIELD, b"\0") for name in names))
