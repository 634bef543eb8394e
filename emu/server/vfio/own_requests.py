"""Requests of the server to its client: DMA that the client executes for the function.

The client answers a request with NO_REPLY all the same when it refuses it (QEMU's
hw/vfio-user/device.c), so replies to any request of the batch are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from emu.server.vfio.protocol import HEADER, MessageFlag, VfioCommand, VfioProtocolError

Request = tuple[VfioCommand, bytes]
"""A command and its payload."""

_MAX_IDS: Final = 1 << 16


class OwnRequests:
    """The batch of requests under way, at most one, and the replies to it."""

    def __init__(self) -> None:
        self._next_id = 0
        self._cmds: dict[int, int] = {}
        """The command of each request that a reply may name, by message id."""
        self._last = -1
        self._refused = 0
        self._on_end: Callable[[int], None] = _ignore

    def batch(self, requests: Sequence[Request], on_end: Callable[[int], None]) -> bytes:
        """Return the messages of a batch, of which only the last one asks for a reply.

        The client executes requests in order, so that reply ends the batch: ``on_end`` is then
        called with the number of refused requests. Raises AssertionError while a batch is under
        way, and for an empty one.
        """
        assert requests
        assert not self._cmds
        messages: list[bytes] = []
        for cmd, payload in requests:
            self._last = self._next_id
            self._next_id = (self._next_id + 1) % _MAX_IDS
            self._cmds[self._last] = cmd
            flags = MessageFlag.NO_REPLY if len(self._cmds) < len(requests) else MessageFlag.COMMAND
            size = HEADER.size + len(payload)
            messages += (HEADER.pack(self._last, cmd, size, flags, 0), payload)
        self._refused = 0
        self._on_end = on_end
        return b"".join(messages)

    def replied(self, msg_id: int, cmd: int, flags: int) -> None:
        """Note a reply; that to the last request ends the batch, and calls ``on_end``.

        Raises :class:`VfioProtocolError` for a reply to no request of the batch, or a second one.
        """
        if self._cmds.pop(msg_id, None) != cmd:
            raise VfioProtocolError(f"a reply to no request of the server: id {msg_id}")
        self._refused += bool(flags & MessageFlag.ERROR)
        if msg_id == self._last:
            self._cmds.clear()
            self._on_end(self._refused)


def _ignore(_refused: int) -> None:
    """Do nothing: no batch is under way."""
