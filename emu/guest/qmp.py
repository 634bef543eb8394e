"""A small client for QEMU's control protocol (QMP): one command at a time, events skipped.

Protocol: QEMU, docs/interop/qmp-spec.rst.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from emu.guest.errors import GuestError

REPLY_TIMEOUT = 90.0  # QEMU may itself be waiting for a device's server


class Qmp:
    """A connection over which QEMU takes commands."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(REPLY_TIMEOUT)
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._receive()  # its greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and give what it returns; :class:`GuestError` when QEMU refuses."""
        request = {"execute": command, "arguments": arguments}
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            reply = self._receive()
            while "return" not in reply and "error" not in reply:
                reply = self._receive()
        except OSError as error:
            raise GuestError(f"QEMU does not answer {command}: {error}") from error
        if "error" in reply:
            raise GuestError(f"QEMU refuses {command}: {reply['error'].get('desc')}")
        return reply["return"]

    def close(self) -> None:
        """End the connection; QEMU goes on."""
        self._lines.close()
        self._connection.close()

    def _receive(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise ConnectionResetError("it has ended")
        value = json.loads(line)
        return value if isinstance(value, dict) else {}
