"""What a transport is: one PCI function offered to one client at a time over a Unix socket.

A transport does not decide when it runs. ``emu.server.vfio.loop`` waits and calls ``accept`` and
``serve``; a test calls them itself. Everything happens in the caller's thread.
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
    """A transport that cannot be set up; the text tells the user why."""


class Transport(Protocol):
    """The connection of one function to its client.

    ``memory`` and ``interrupts`` exist from the start, so that the function can be created with
    them, and stay the same objects; their content changes with the client. When a client leaves or
    breaks the protocol, its memory and its interrupts are dropped, the function is reset, and the
    transport listens for the next one.
    """

    @property
    def memory(self) -> DmaMap:
        """The client's memory."""

    @property
    def interrupts(self) -> MsixVectors:
        """The client's MSI-X vectors."""

    @property
    def function(self) -> PciFunction:
        """The function that is served; set by :meth:`listen`."""

    @property
    def connected(self) -> bool:
        """Whether there is a client."""

    @property
    def may_wait(self) -> bool:
        """Whether there is a client, and :meth:`serve` itself can wait for it.

        False while a reply waits until the client reads: then the caller has to wait.
        """

    @property
    def events(self) -> int:
        """The poll() events after which :meth:`serve` or :meth:`accept` has something to do.

        0 when it already has something to do: received messages wait to be handled.
        """

    def listen(self, function: PciFunction) -> None:
        """Offer ``function``. Raises :class:`TransportError`."""

    def fileno(self) -> int:
        """The descriptor to wait on: the client's, or the listening one; -1 when closed.

        After one of ``events`` call :meth:`serve` or :meth:`accept` accordingly.
        """

    def accept(self) -> None:
        """Take the waiting client; nothing happens when there is none or one is served already."""

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait up to ``timeout_ns`` (None: for ever) for messages and answer those that are there.

        Handles at most one turn of them, about a millisecond's work. May return early. Cleans up
        when the client goes away; check ``connected``.
        """

    def wake(self) -> None:
        """Make the waiting ``serve``, or the next one that waits, return. For signal handlers."""

    def close(self) -> None:
        """Drop the client and stop listening; harmless when closed."""


def clean_up(name: str, *steps: Callable[[], object]) -> None:
    """Take every step after a client has gone, whichever of them fails: that is logged."""
    for step in steps:
        try:
            step()
        except Exception:
            logger.exception("%s: internal error after the client has gone", name)
