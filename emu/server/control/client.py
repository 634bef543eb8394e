"""The Python side of the control socket."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emu.host.user_error import UserError
from emu.server.control import protocol

SOCKET_NAME = "control"
"""File name of the server's control socket in a guest's temporary directory."""

_TIMEOUT = 30.0


class ControlError(UserError):
    """No server answers at the path, or the server refuses a request."""


class Client:
    """A connection to a server.

    ::

        with Client(guest.control_socket) as control:
            control.load_plan(Path("plan.toml").read_text())
            ...
            print(control.rules())

    Every method raises :class:`ControlError`.
    """

    def __init__(
        self, path: str | os.PathLike[str], timeout: float = _TIMEOUT, guest: str | None = None
    ) -> None:
        """Connect to the socket at ``path``; an answer may take ``timeout`` seconds.

        ``guest`` limits status, objects, rules and links to the functions of that guest, if the
        server has several guests.
        """
        self._name = os.fspath(path)
        self._guest = {} if guest is None else {"guest": guest}
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(timeout)
        self._buffer = bytearray()
        self._number = 0
        try:
            self._sock.connect(self._name)
        except OSError as error:
            self._sock.close()
            raise ControlError(f"{self._name}: {error.strerror or error}") from None
        self.hello = self._receive()
        if self.hello.get("protocol") != protocol.VERSION:
            raise ControlError(f"{self._name}: no protocol of version {protocol.VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._sock.close()

    def status(self) -> dict[str, Any]:
        """Return state, port and counts of every function."""
        return self._call("status")

    def objects(self, **choice: object) -> dict[str, Any]:
        """Return the objects of every function, restricted by ``function``, ``kind``, ``limit``."""
        return self._call("objects", **choice)

    def census(self) -> dict[str, int]:
        """Return the number of objects in use of all functions, by kind.

        A free memory key that its driver keeps for later is not in use.
        """
        counts: dict[str, int] = self.call("census")["objects"]
        return counts

    def rules(self) -> list[dict[str, Any]]:
        """Return the loaded rules, each with its counts of matched and fired events."""
        rules: list[dict[str, Any]] = self._call("fault.list")["rules"]
        return rules

    def fired(self, name: str | None = None) -> int:
        """Return how often the rule of this name, or all rules, fired.

        0 for a name that no rule has.
        """
        return self._count("fired", name)

    def without_effect(self, name: str | None = None) -> int:
        """Return how often the rule of this name, or all rules, met an event without effect.

        0 if unknown.
        """
        return self._count("without_effect", name)

    def _count(self, what: str, name: str | None) -> int:
        """Return the sum of a count over functions, of the rule of this name or of all (None).

        Return 0 for a name that no rule has.
        """
        rules = [rule for rule in self.rules() if name in (None, rule["name"])]
        return sum(count[what] for rule in rules for count in rule["counts"])

    def add(self, rule: Mapping[str, Any] | None = None, **fields: object) -> str:
        """Add a rule with the keys of a plan's rule, which ``fields`` override; return its name.

        A rule without a name gets one from the server. Raises :class:`ControlError` for an invalid
        rule or a used name.
        """
        return str(self._call("fault.add", rule={**(rule or {}), **fields})["name"])

    def remove(self, name: str) -> None:
        """Remove a rule and end its effects; raise :class:`ControlError` for an unknown name."""
        self._call("fault.remove", name=name)

    def load_plan(self, text: str) -> int:
        """Replace all rules by those of a plan in TOML, and set its links.

        Return the number of rules. Raises :class:`ControlError` with the mistakes of an invalid
        plan, without a change.
        """
        return int(self._call("fault.load", plan=text)["rules"])

    def clear(self) -> None:
        """Remove all rules."""
        self._call("fault.load")

    def links(self) -> list[dict[str, Any]]:
        """Return the links that are or were set, by function and direction."""
        links: list[dict[str, Any]] = self._call("net.show")["links"]
        return links

    def set_link(self, link: Mapping[str, Any] | None = None, **fields: object) -> None:
        """Set links with the keys of a plan's link; without properties, clear them."""
        self._call("net.set", link={**(link or {}), **fields})

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method for the functions of this client's guest."""
        return self.call(method, **self._guest, **params)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call any method of the protocol, and wait for the answer; return the result.

        Adds no guest. Raises :class:`ControlError` with the server's text when it refuses, for a
        lost connection or a timeout, and for an answer of another request.
        """
        self._number += 1
        try:
            self._sock.sendall(
                protocol.encode({"id": self._number, "method": method, "params": params})
            )
        except OSError as error:
            raise self._lost(error) from None
        answer = self._receive()
        if "error" in answer:
            raise ControlError(str(answer["error"].get("message", "no reason given")))
        if answer.get("id") != self._number or not isinstance(answer.get("result"), dict):
            raise ControlError(f"{self._name}: the answer has the id of no request")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        """Wait for a line of the server and return its message.

        Raises :class:`ControlError` when the server has closed, at the timeout, for a line over 16
        MiB, or for invalid JSON.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            try:
                data = self._sock.recv(1 << 20)
            except OSError as error:
                raise self._lost(error) from None
            if not data or len(self._buffer) > protocol.MAX_ANSWER:
                raise ControlError(f"{self._name}: the server has ended the connection")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return protocol.decode(line)
        except protocol.MessageError as error:
            raise ControlError(f"{self._name}: {error}") from None

    def _lost(self, error: OSError) -> ControlError:
        return ControlError(f"{self._name}: {error.strerror or error}")


def sockets() -> list[Path]:
    """Return the paths of control sockets of this user's guests, oldest first by modification time.

    Paths of crashed servers are included: no connection is tried. Others' files are ignored.
    """
    paths = Path(tempfile.gettempdir()).glob(f"mlx5emu-*/{SOCKET_NAME}")
    mine = []
    for path in paths:
        try:
            about, around = path.lstat(), path.parent.lstat()
        except OSError:
            continue
        # In another user's directory or behind a symbolic link, another user may own the socket.
        is_socket = stat.S_ISSOCK(about.st_mode) and stat.S_ISDIR(around.st_mode)
        if is_socket and {about.st_uid, around.st_uid} == {os.getuid()}:
            mine.append((about.st_mtime, path))
    return [path for _, path in sorted(mine)]
