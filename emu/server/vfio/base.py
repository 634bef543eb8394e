"""The interface of a transport: a PCI function for a client at a time over a Unix socket.

A transport does not decide when it runs. ``emu.server.vfio.loop`` waits and calls ``accept`` and
``serve``; a test calls them itself. All work runs in the caller's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from emu.device.ports import PciFunction
from emu.server.vfio.interrupts import MsixVectors
from emu.server.vfio.memory import DmaMap

logger = logging.getLogger(__name__)


class TransportError(Exception):
    """A transport that cannot be set up; the text gives the user the reason."""


class Transport(Protocol):
    """The connection of a function to its client.

    ``memory`` and ``interrupts`` exist from the start, because the function is created with them.
    The objects stay the same; their content changes with the client. When a client leaves or breaks
    the protocol, its memory and its interrupts are dropped and the function is reset. The transport
    then listens for the next client.
    """

    @property
    def memory(self) -> DmaMap:
        """The client's memory."""

    @property
    def interrupts(self) -> MsixVectors:
        """The client's MSI-X vectors."""

    @property
    def function(self) -> PciFunction:
        """The served function; set by :meth:`listen`."""

    @property
    def connected(self) -> bool:
        """Whether a client is connected."""

    @property
    def may_wait(self) -> bool:
        """Whether a client is connected, and :meth:`serve` itself can wait for it.

        False while a reply waits until the client reads: then the caller must wait.
        """

    @property
    def events(self) -> int:
        """The poll() events after which :meth:`serve` or :meth:`accept` must be called.

        0 when received messages are already pending.
        """

    def listen(self, function: PciFunction) -> None:
        """Offer ``function``. Raises :class:`TransportError`."""

    def fileno(self) -> int:
        """Return the descriptor to wait on: the client's, or the listening one; -1 when closed.

        After one of ``events`` call :meth:`serve` or :meth:`accept` accordingly.
        """

    def accept(self) -> None:
        """Accept the waiting client; do nothing without one, or while one is served."""

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait up to ``timeout_ns`` (None: for ever) for messages and answer the received ones.

        Handles the messages of at most one poll, about a millisecond's work. May return early.
        Cleans up when the client leaves; check ``connected``.
        """

    def wake(self) -> None:
        """Make the waiting ``serve``, or the next one that waits, return. For signal handlers."""

    def close(self) -> None:
        """Drop the client and stop listening; do nothing when closed."""


def clean_up(name: str, *steps: Callable[[], object]) -> None:
    """Execute every step after a client has left, also after one has failed.

    An exception of a step is logged with ``name`` and not raised.
    """
    for step in steps:
        try:
            step()
        except Exception:
            logger.exception("%s: internal error after the client has left", name)
