"""Common base of the vfio-user servers: the listener, a client at a time, its clean-up."""

from __future__ import annotations

import logging
import os
import select
import socket
from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from emu.device.ports import PciFunction
from emu.host.listening import OWNER_ONLY
from emu.server.vfio.base import TransportError, clean_up
from emu.server.vfio.interrupts import MsixVectors
from emu.server.vfio.listener import VfioListener
from emu.server.vfio.memory import DmaMap
from emu.server.vfio.protocol import VfioProtocolError

logger = logging.getLogger(__name__)

SLOW_BYTES: Final = 256
"""Additional cost of a slow request in bytes; a slow request, a reset, takes 0.3 ms."""


class ServedClient(Protocol):
    """A client and its connection."""

    def fileno(self) -> int:
        """Return the socket's descriptor."""

    def wake(self) -> None:
        """End the wait for its messages, or the next one."""

    def hang_up(self) -> None:
        """Make the next receive call find the connection closed."""

    def close(self) -> None:
        """Close the connection."""


AnyClient = TypeVar("AnyClient", bound=ServedClient)


class VfioServer(ABC, Generic[AnyClient]):
    """A function on a vfio-user socket; see :class:`emu.server.vfio.base.Transport`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        interrupts: MsixVectors,
        *,
        trust_unsealed: bool = False,
        socket_mode: int = OWNER_ONLY,
    ) -> None:
        self.memory = DmaMap(trust_unsealed=trust_unsealed)
        self.interrupts = interrupts
        self._listener = VfioListener(path, socket_mode)
        self._name = os.fspath(path)
        self._function: PciFunction | None = None
        self._client: AnyClient | None = None

    @property
    def function(self) -> PciFunction:
        """The served function; TransportError before :meth:`listen`."""
        if self._function is None:
            raise TransportError(f"{self._name}: call listen() first")
        return self._function

    @property
    def connected(self) -> bool:
        """Whether a client is connected."""
        return self._client is not None

    @property
    def may_wait(self) -> bool:
        """Whether :meth:`serve` itself can wait for the client."""
        return self._client is not None

    @property
    def events(self) -> int:
        """The events to poll for."""
        return select.POLLIN

    def listen(self, function: PciFunction) -> None:
        """Offer ``function`` from now on, and connect its memory and interrupts.

        Raises :class:`TransportError` when the socket cannot be opened.
        """
        self.interrupts.resize(function.msix_vectors)
        self._function = function
        self.memory.forget_views = function.forget_views
        self.memory.on_lost = self._memory_lost
        self.interrupts.on_blocked = self._interrupt_blocked
        self._open(function)
        logger.info("%s: listening", self._name)

    @abstractmethod
    def _open(self, function: PciFunction) -> None:
        """Open the listener and prepare the transport. Raises TransportError."""

    def fileno(self) -> int:
        """Return the client's descriptor, or the listening one."""
        return self._client.fileno() if self._client else self._listener.fileno()

    def accept(self) -> None:
        """Accept the waiting client; do nothing without one, or while one is served."""
        if self._client is None and (sock := self._listener.accept()) is not None:
            self._client = self._meet(sock)
            logger.info("%s: a client has connected", self._name)

    @abstractmethod
    def _meet(self, sock: socket.socket) -> AnyClient:
        """Return the state of a client that has connected."""

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait up to ``timeout_ns`` for messages and handle those of one poll.

        Do nothing without a client. A client that has left, broken the protocol or caused an
        internal error is dropped and logged, and the function reset. Raises nothing; afterwards
        check ``connected``.
        """
        client = self._client
        if client is None:
            return
        try:
            self._handle(client, timeout_ns)
        except EOFError:
            logger.info("%s: the client has left", self._name)
            self._drop()
        except (VfioProtocolError, OSError) as error:
            logger.warning("%s: the client is dropped: %s", self._name, error)
            self._drop()
        except Exception:
            logger.exception("%s: internal error: the client is dropped", self._name)
            self._drop()

    @abstractmethod
    def _handle(self, client: AnyClient, timeout_ns: int | None) -> None:
        """Handle messages, as :meth:`serve`; raise EOFError when the client has left.

        Raises OSError or VfioProtocolError for another loss of the client.
        """

    def wake(self) -> None:
        """End the wait in :meth:`serve`, or the next one."""
        if self._client is not None:
            self._client.wake()

    def close(self) -> None:
        """Stop listening, drop the client and reset the function; do nothing when closed."""
        self._listener.close()
        if self._client is not None:
            self._drop()

    def _interrupt_blocked(self) -> None:
        """Log a blocked write to an eventfd and shut down the connection.

        The next ``serve`` drops the client.
        """
        logger.warning("%s: a write to the client's eventfd blocked", self._name)
        if self._client is not None:
            self._client.hang_up()

    def _memory_lost(self) -> None:
        """Log lost guest pages and shut down the connection.

        The next ``serve`` drops the client.
        """
        logger.error("%s: a file of guest memory has lost granted pages", self._name)
        if self._client is not None:
            self._client.hang_up()

    def _drop(self) -> None:
        """Unmap the client's memory, close its connection, drop its interrupts; reset the function.

        Does nothing without a client. A failing step is logged; the other steps still run.
        ``_client`` is cleared first, because a signal handler may wake the client there, which must
        be open.
        """
        client, self._client = self._client, None
        if client is None:
            return
        clean_up(
            self._name,
            self.memory.clear,
            client.close,
            self.interrupts.clear,
            self.function.reset,
            self.memory.collect,
        )
