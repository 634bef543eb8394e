"""The sockets of a fabric, as one descriptor of the loop's: they come and go without its notice."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable
from typing import Protocol

from emu.fabric.connection import Connection
from emu.ports import Clock

log = logging.getLogger(__name__)


class Reactor(Clock, Protocol):
    """The loop that drives sockets and timers."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``fd`` is readable."""

    def remove_reader(self, fd: int) -> None:
        """Watch ``fd`` no longer."""

    def step(self, timeout_ns: int | None = 0) -> None:
        """One round, waiting at most so long."""


class Poller:
    """Calls the connections whose sockets are ready, and whoever accepts new ones."""

    def __init__(self, loop: Reactor) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._listener = -1
        self._accept: Callable[[], None] | None = None
        loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, connection: Connection, events: int) -> None:
        """Call ``connection.ready`` for these epoll events from now on."""
        fd = connection.fileno()
        if self._connections.get(fd) is connection:
            self._epoll.modify(fd, events)
        else:
            # A closed socket has left the epoll set by itself; its number may be used again.
            self._connections[fd] = connection
            self._epoll.register(fd, events)

    def listen(self, fd: int, accept: Callable[[], None]) -> None:
        """Call ``accept`` when somebody waits at the listening socket ``fd``."""
        self._listener, self._accept = fd, accept
        self._epoll.register(fd, select.EPOLLIN)

    def close(self) -> None:
        """Watch nothing any more."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        for fd, events in self._epoll.poll(0):
            if fd == self._listener and self._accept is not None:
                self._accept()
            elif (connection := self._connections.get(fd)) is not None:
                self._serve(connection, events)

    @staticmethod
    def _serve(connection: Connection, events: int) -> None:
        """A mistake of ours over what one process sends does not end what the others have."""
        try:
            connection.ready(events)
        except Exception:
            log.exception("%s: internal error", connection.name)
            connection.close("internal error")
