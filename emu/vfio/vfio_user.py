"""Our own vfio-user server, the default transport.

Specification: vfio-user protocol 0.9.2. Not offered: migration, mappable regions, server-to-client
messages (memory granted without a descriptor is inaccessible).
"""

from __future__ import annotations

import logging
import os
import select

from emu.host.listening import OWNER_ONLY
from emu.ports import PciFunction
from emu.vfio.base import TransportError, clean_up
from emu.vfio.interrupts import IrqTable
from emu.vfio.listener import Listener
from emu.vfio.memory import DmaMap
from emu.vfio.protocol import ProtocolError
from emu.vfio.requests import Requests
from emu.vfio.session import Session

logger = logging.getLogger(__name__)


class VfioUserServer:
    """A function on a vfio-user socket; see :class:`emu.vfio.base.Transport`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trust_unsealed: bool = False,
        socket_mode: int = OWNER_ONLY,
    ) -> None:
        self.memory = DmaMap(trust_unsealed=trust_unsealed)
        self.interrupts = IrqTable()
        self._listener = Listener(path, socket_mode)
        self._name = os.fspath(path)
        self._function: PciFunction | None = None
        self._requests: Requests | None = None
        self._session: Session | None = None

    @property
    def function(self) -> PciFunction:
        """The function that is served."""
        if self._function is None:
            raise TransportError(f"{self._name}: listen() comes first")
        return self._function

    @property
    def connected(self) -> bool:
        """Whether there is a client."""
        return self._session is not None

    @property
    def may_wait(self) -> bool:
        """Whether :meth:`serve` itself can wait for the client."""
        session = self._session
        return session is not None and not session.is_stuck

    @property
    def events(self) -> int:
        """The events to poll for; 0 when there is work already."""
        session = self._session
        if session is None or not session.behind:
            return select.POLLIN
        return select.POLLOUT if session.is_stuck else 0

    def listen(self, function: PciFunction) -> None:
        """Offer ``function`` from now on."""
        self.interrupts.resize(function.msix_vectors)
        self._requests = Requests(function, self.memory, self.interrupts)
        self._function = function
        self.memory.forget_views = function.forget_views
        self.memory.on_lost = self._memory_lost
        self.interrupts.on_blocked = self._interrupt_blocked
        self._listener.open()
        logger.info("%s: listening", self._name)

    def fileno(self) -> int:
        """The client's descriptor, or the listening one."""
        return self._session.fileno() if self._session else self._listener.fileno()

    def accept(self) -> None:
        """Take the waiting client."""
        if self._session is not None or self._requests is None:
            return
        sock = self._listener.accept()
        if sock is not None:
            self._session = Session(sock, self._name, self.function, self._requests)
            logger.info("%s: a client has connected", self._name)

    def serve(self, timeout_ns: int | None = 0) -> None:
        """Wait for messages and handle one turn of those that one receive call brings."""
        session = self._session
        if session is None:
            return
        try:
            if session.behind:
                session.go_on()
            elif session.receive(timeout_ns):
                session.dispatch()
        except EOFError:
            logger.info("%s: the client has left", self._name)
            self._drop()
        except (ProtocolError, OSError) as error:
            logger.warning("%s: the client is dropped: %s", self._name, error)
            self._drop()
        except Exception:
            logger.exception("%s: internal error: the client is dropped", self._name)
            self._drop()

    def wake(self) -> None:
        """End the wait in :meth:`serve`, or the next one."""
        if self._session is not None:
            self._session.wake()

    def close(self) -> None:
        """Drop the client and stop listening."""
        self._listener.close()
        if self._session is not None:
            self._drop()

    def _interrupt_blocked(self) -> None:
        """Called while an interrupt is raised: the client is dropped when it is served next."""
        logger.warning("%s: the client has made an eventfd block", self._name)
        if self._session is not None:
            self._session.hang_up()

    def _memory_lost(self) -> None:
        """Called in the middle of an access: the client is dropped when it is served next."""
        logger.error("%s: a file of guest memory has lost pages that were granted", self._name)
        if self._session is not None:
            self._session.hang_up()

    def _drop(self) -> None:
        """Forget the client before the function is reset, which then can access nothing of it.

        The client is cleared first here: a signal handler may wake the client that it finds, and
        that must not be closed.
        """
        session, self._session = self._session, None
        if session is not None:
            session.close()
        memory = self.memory
        clean_up(
            self._name, memory.clear, self.interrupts.clear, self.function.reset, memory.collect
        )
