"""A small client for QEMU's control protocol (QMP): one command at a time, events on request.

Protocol: QEMU, docs/interop/qmp-spec.rst.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from typing import Any

from emu.guests.errors import GuestError

REPLY_TIMEOUT = 90.0  # QEMU may itself be waiting for a device's server

_MAX_LINE_BYTES = 1 << 20
_MAX_EVENTS = 100_000
"""Maximum number of events between a command and its answer."""
_MAX_EARLY_EVENTS = 100
"""Maximum number of early events that are kept for :meth:`Qmp.wait_for`."""


class Qmp:
    """A connection over which QEMU accepts commands.

    ``Qmp`` owns the connection from the start, and closes it when QEMU sends no greeting.
    """

    def __init__(self, connection: socket.socket, timeout: float = REPLY_TIMEOUT) -> None:
        connection.settimeout(timeout)
        self._connection = connection
        self._timeout = timeout
        self._lock = threading.Lock()
        self._early: deque[dict[str, object]] = deque(maxlen=_MAX_EARLY_EVENTS)
        self._lines = connection.makefile("rb")
        try:
            self._receive()  # its greeting
            self.execute("qmp_capabilities")
        except (GuestError, OSError):
            self.close()
            raise

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its result.

        Raises :class:`GuestError` when QEMU refuses it, ends, or does not answer in time.
        """
        request = {"execute": command, "arguments": arguments}
        try:
            with self._lock:
                self._connection.sendall(json.dumps(request).encode() + b"\n")
                reply = self._answer()
        except OSError as error:
            raise GuestError(f"QEMU does not answer {command}: {error}") from error
        if "error" in reply:
            why = reply["error"]
            why = why.get("desc") if isinstance(why, dict) else why
            raise GuestError(f"QEMU refuses {command}: {why}")
        return reply["return"]

    def wait_for(self, *events: str) -> tuple[str, dict[str, object]]:
        """Wait for one of the events without a time limit; return its name and its data.

        The data are an empty dict for an event without any. Other events are dropped. Events
        received between earlier commands and their answers count too. Raises OSError when QEMU
        ends.
        """
        self._connection.settimeout(None)
        while (event := (message := self._next()).get("event")) not in events:
            pass
        self._connection.settimeout(self._timeout)
        data = message.get("data")
        return str(event), data if isinstance(data, dict) else {}

    def close(self) -> None:
        """Close the connection; QEMU keeps running."""
        self._lines.close()
        self._connection.close()

    def _answer(self) -> dict[str, object]:
        """Return the next answer; keep the last 100 events before it for :meth:`wait_for`.

        Raises ConnectionResetError after 100,000 events, and when QEMU ends.
        """
        for _ in range(_MAX_EVENTS):
            reply = self._receive()
            if "return" in reply or "error" in reply:
                return reply
            self._early.append(reply)
        raise ConnectionResetError("QEMU sends only events")

    def _next(self) -> dict[str, object]:
        return self._early.popleft() if self._early else self._receive()

    def _receive(self) -> dict[str, object]:
        """Read one line; return its object, an empty dict for other JSON.

        Raises ConnectionResetError at the end of file or for invalid JSON, TimeoutError after the
        limit.
        """
        line = self._lines.readline(_MAX_LINE_BYTES)
        if not line:
            raise ConnectionResetError("QEMU has ended")
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise ConnectionResetError("QEMU sent invalid JSON") from None
        return value if isinstance(value, dict) else {}
