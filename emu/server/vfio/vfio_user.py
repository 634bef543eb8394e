"""Our own vfio-user server, the default transport.

Specification: vfio-user protocol 0.9.2. Not offered: migration, mappable regions. Messages from
server to client only place virtual functions; memory granted without a descriptor is inaccessible.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence

from emu.device.ports import PciFunction
from emu.host.listening import OWNER_ONLY
from emu.server.vfio.interrupts import IrqTable
from emu.server.vfio.own_requests import Request
from emu.server.vfio.requests import ConfigObserver, Requests
from emu.server.vfio.server import VfioServer
from emu.server.vfio.session import VfioSession


class VfioUserServer(VfioServer[VfioSession]):
    """A function on a vfio-user socket; see :class:`emu.server.vfio.base.Transport`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trust_unsealed: bool = False,
        socket_mode: int = OWNER_ONLY,
    ) -> None:
        self._irqs = IrqTable()
        super().__init__(path, self._irqs, trust_unsealed=trust_unsealed, socket_mode=socket_mode)
        self._requests: Requests | None = None

    @property
    def may_wait(self) -> bool:
        """Whether :meth:`serve` itself can wait for the client."""
        client = self._client
        return client is not None and not client.unsent

    @property
    def events(self) -> int:
        """Return the events to poll for: POLLIN, or POLLOUT while an unsent reply waits.

        Return 0 when received messages are pending: call :meth:`serve` without a wait.
        """
        session = self._client
        if session is None or not session.behind:
            return select.POLLIN
        return select.POLLOUT if session.unsent else 0

    def observe(self, observer: ConfigObserver) -> None:
        """Show each client's accesses to configuration space, and resets, to an observer.

        Call after :meth:`listen`, once.
        """
        assert self._requests is not None
        self._requests.observer = observer

    def send_requests(self, requests: Sequence[Request], on_end: Callable[[int], None]) -> None:
        """Send a batch to the client; do nothing without one."""
        if self._client is not None:
            self._client.send_requests(requests, on_end)

    def _open(self, function: PciFunction) -> None:
        self._requests = Requests(function, self.memory, self._irqs)
        self._listener.open()

    def _meet(self, sock: socket.socket) -> VfioSession:
        assert self._requests is not None
        if self._requests.observer is not None:
            self._requests.observer.forget()
        return VfioSession(sock, self._name, self.function, self._requests)

    def _handle(self, client: VfioSession, timeout_ns: int | None) -> None:
        """Receive once and handle the messages of one poll, or go on with those received before.

        Waits only when no message is pending. Raises EOFError, OSError or VfioProtocolError for the
        loss of the client.
        """
        if client.behind:
            client.go_on()
        elif client.receive(timeout_ns):
            client.dispatch()
