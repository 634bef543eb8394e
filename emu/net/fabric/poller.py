"""The sockets of a fabric behind one epoll descriptor, so that the loop need not know each of them.

In one round of the loop a bounded number of packets is taken from each connection, and from all of
them together. Connections with more packets are served in the next rounds; functions run in
between.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable
from functools import partial
from typing import Protocol

from emu.net.fabric.connection import Connection
from emu.ports import Clock, Timer

log = logging.getLogger(__name__)

PACKETS_PER_TURN = 128
"""Limit for one connection."""
PACKETS_PER_ROUND = 512
"""Limit for all connections together."""


class Reactor(Clock, Protocol):
    """The loop that drives sockets and timers."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``fd`` is readable."""

    def remove_reader(self, fd: int) -> None:
        """Stop watching ``fd``."""

    def step(self, timeout_ns: int | None = 0) -> None:
        """One round, which waits at most ``timeout_ns``."""


class Poller:
    """Calls the connections whose sockets are ready, and the callback that accepts new ones."""

    def __init__(self, loop: Reactor) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._listener = -1
        self._accept: Callable[[], None] | None = None
        self._waiting: dict[Connection, None] = {}
        """Connections with data for us, in the order in which they are served."""
        self._next_round: Timer | None = None
        loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, connection: Connection, events: int) -> None:
        """From now on, serve a connection when these epoll events occur."""
        fd = connection.fileno()
        if self._connections.get(fd) is connection:
            self._epoll.modify(fd, events)
        else:
            # A closed socket has left the epoll set by itself; its number may be used again.
            self._connections[fd] = connection
            self._epoll.register(fd, events)

    def listen(self, fd: int, accept: Callable[[], None]) -> None:
        """Call ``accept`` when a connection waits at the listening socket ``fd``."""
        self._listener, self._accept = fd, accept
        self._epoll.register(fd, select.EPOLLIN)

    def close(self) -> None:
        """Stop watching everything."""
        if self._next_round is not None:
            self._next_round.cancel()
        self._waiting.clear()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        has_visitors = False
        for fd, events in self._epoll.poll(0):
            if fd == self._listener:
                has_visitors = True
            elif (connection := self._connections.get(fd)) is not None:
                if events & select.EPOLLOUT:
                    self._guarded(connection, connection.room)
                if events & ~select.EPOLLOUT:
                    self._waiting[connection] = None
        if self._next_round is None:
            self._serve()
        # Last: a HELLO received above takes its connection off the list of strangers first.
        if has_visitors and self._accept is not None:
            self._accept()

    def _serve(self) -> None:
        """Take packets from the waiting connections, up to the limits of a round."""
        left = PACKETS_PER_ROUND
        for connection in list(self._waiting):
            if left <= 0:
                break
            del self._waiting[connection]
            left -= self._guarded(connection, partial(connection.take, min(left, PACKETS_PER_TURN)))
            if connection.has_more:
                self._waiting[connection] = None
        if self._waiting:
            self._next_round = self._loop.call_later(0, self._go_on)

    def _go_on(self) -> None:
        self._next_round = None
        self._serve()

    @staticmethod
    def _guarded(connection: Connection, call: Callable[[], int | None]) -> int:
        """Call it; a bug of ours with the data of one connection must not affect the others."""
        try:
            return call() or 0
        except Exception:
            log.exception("%s: internal error", connection.name)
            connection.close("internal error")
            return 1
