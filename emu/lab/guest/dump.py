"""A guest's memory in a file that crash(8) and drgn open: on request, or when the guest panics.

QEMU writes it (``dump-guest-memory``) in the format that kdump has, compressed and without pages
of zeros. What the tools have to know of the kernel is in it when the guest's kernel has told QEMU
so: its module qemu_fw_cfg does that.

A panic resets the machine. For a guest whose panic is to be kept, QEMU stops there
(``-action shutdown=pause``) until we have the memory, and then ends.
"""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from emu.lab.errors import GuestError
from emu.lab.guest import console
from emu.lab.guest.process import Listener
from emu.lab.machine.qmp import Qmp

logger = logging.getLogger(__name__)

FORMAT = "kdump-raw-zlib"
CONNECT_TIMEOUT = 60.0
WRITE_TIMEOUT = 600.0
_UTSNAME_AT = 12
_UTSNAME_FIELD = 65
_HEADERS = 1 << 20
_RELEASE = re.compile(rb"OSRELEASE=([!-~]{1,64})\n")


def write(execute: Callable[..., object], path: Path) -> None:
    """Write the memory by QMP's ``execute``; of a failure nothing is left. Raises GuestError."""
    part = path.with_name(f"{path.name}.part")
    try:
        execute("dump-guest-memory", paging=False, protocol=f"file:{part}", format=FORMAT)
        part.chmod(0o600)
        with part.open("r+b") as file:
            complete(file)
        part.replace(path)
    except OSError as error:
        raise GuestError(f"{path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def complete(file: BinaryIO) -> None:
    """Say in the header which system it is, which QEMU leaves out and drgn wants to know.

    The header has struct new_utsname behind signature and version (makedumpfile, diskdump_mod.h);
    the release stands in VMCOREINFO as well, if that is there.
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


class PanicDump:
    """Waits for a guest's panic on a QMP connection of its own, and keeps its memory in ``path``.

    ``read_console`` returns what is on the console by then.
    """

    def __init__(self, path: Path, work: Path, read_console: Callable[[], str]) -> None:
        self._path = path
        self._read_console = read_console
        self._listener = Listener(work / "events")
        self.outcome = ""
        """What has become of the memory of a guest that has panicked."""

    @property
    def control(self) -> Path:
        """The socket that QEMU connects to."""
        return self._listener.path

    def start(self, process: subprocess.Popen[bytes]) -> None:
        """Wait, in a thread of its own, until ``process`` ends."""
        threading.Thread(target=self._watch, args=(process,), name="dump", daemon=True).start()

    def close(self) -> None:
        """To be called when QEMU has ended."""
        self._listener.close()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        try:
            connection = self._listener.accept(process, CONNECT_TIMEOUT)
            with contextlib.closing(Qmp(connection, WRITE_TIMEOUT)) as qmp:
                qmp.wait_for("SHUTDOWN")
                if console.panic(self._read_console()) is not None:
                    self._keep(qmp)
                qmp.execute("quit")
        except (GuestError, OSError) as error:
            logger.debug("QEMU has ended: %s", error)

    def _keep(self, qmp: Qmp) -> None:
        try:
            write(qmp.execute, self._path)
            self.outcome = f"its memory is in {self._path}"
        except GuestError as error:
            self.outcome = f"its memory is lost: {error}"
