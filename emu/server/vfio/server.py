"""What both vfio-user servers have in common: a listener, one client at a time, its end."""

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
"""Bytes that any other request counts as in addition; one of them, a reset, takes 0.3 ms."""


class ServedClient(Protocol):
    """A client and its connection."""

    def fileno(self) -> int:
        """The socket."""

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
        """The function that is served."""
        if self._function is None:
            raise TransportError(f"{self._name}: listen() comes first")
        return self._function

    @property
    def connected(self) -> bool:
        """Whether there is a client."""
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
        """Offer ``function`` from now on."""
        self.interrupts.resize(function.msix_vectors)
        self._function = function
        self.memory.forget_views = function.forget_views
        self.memory.on_lost = self._memory_lost
        self.interrupts.on_blocked = self._interrupt_blocked
        self._open(function)
        logger.info("%s: listening", self._name)

    @abstractmethod
    def _open(self, function: PciFunction) -> None:
        """Open the listener, and what else there is to prepare. Raises TransportError."""

    def fileno(self) -> int:
        """The client's descriptor, or the listening one."""
        return self._client.fileno() if self._client else self._listener.fileno()

    def accept(self) -> None:
        """Take the waiting client."""
        if self._client is None and (sock := self._listener.accept()) is not None:
            self._client = self._meet(sock)
            logger.info("%s: a client has connected", self._name)

    @abstractmethod
    def _meet(self, sock: socket.socket) -> AnyClient:
        """A client has connected."""

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait for messages and handle one turn of them."""
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
        """As :meth:`serve`. EOFError: the client has left. Else OSError, VfioProtocolError."""

    def wake(self) -> None:
        """End the wait in :meth:`serve`, or the next one."""
        if self._client is not None:
            self._client.wake()

    def close(self) -> None:
        """Drop the client and stop listening."""
        self._listener.close()
        if self._client is not None:
            self._drop()

    def _interrupt_blocked(self) -> None:
        """Called while an interrupt is raised: the client is dropped when it is served next."""
        logger.warning("%s: the client has made an eventfd block", self._name)
        if self._client is not None:
            self._client.hang_up()

    def _memory_lost(self) -> None:
        """Called in the middle of an access: the client is dropped when it is served next."""
        logger.error("%s: a file of guest memory has lost pages that were granted", self._name)
        if self._client is not None:
            self._client.hang_up()

    def _drop(self) -> None:
        """Forget the client before the function is reset, which then can access nothing of it.

        ``_client`` is cleared first: a signal handler may wake the client that it finds there, and
        that must not be closed.
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
