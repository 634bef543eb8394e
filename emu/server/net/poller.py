"""An epoll descriptor for the sockets to other processes; the loop watches only that one.

In each round of the loop the poller takes a bounded number of packets from each connection, and
from all together. Connections with more packets are served in the next rounds, after the functions.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable
from functools import partial
from typing import Protocol

from emu.device.ports import Clock, Timer
from emu.device.rounds.budget import CLIENT_BUDGET, Budget
from emu.device.rounds.sizes import PACKETS_PER_CONNECTION, PACKETS_PER_ROUND

log = logging.getLogger(__name__)

READ, WRITE = select.EPOLLIN, select.EPOLLIN | select.EPOLLOUT
_EPOLLOUT = select.EPOLLOUT


class Reactor(Clock, Protocol):
    """The loop that drives sockets and timers."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``fd`` is readable."""

    def remove_reader(self, fd: int) -> None:
        """Stop watching ``fd``."""

    def step(self, timeout_ns: int | None = 0) -> None:
        """Run a round, which waits at most ``timeout_ns``."""


class Pollable(Protocol):
    """A connection to another process, which never blocks."""

    @property
    def name(self) -> str:
        """The connection's name in the log."""

    @property
    def has_more(self) -> bool:
        """Whether packets already read wait for the next :meth:`take`."""

    def fileno(self) -> int:
        """Return the descriptor to watch; -1 when closed."""

    def on_writable(self) -> None:
        """Write queued data, because the descriptor accepts data again (EPOLLOUT)."""

    def take(self, limit: int) -> int:
        """Handle received data up to a cost of about ``limit`` packets; return the cost."""

    def close(self, why: str) -> None:
        """Close the connection for this reason."""


class Poller:
    """Serves the ready connections, and calls the callbacks that accept new ones."""

    def __init__(self, loop: Reactor) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._connections: dict[int, Pollable] = {}
        self._listeners: dict[int, Callable[[], None]] = {}
        self._events: dict[int, int] = {}
        self._paused: dict[Pollable, Timer] = {}
        self._waiting: dict[Pollable, None] = {}
        """Connections with received data, in the order of service."""
        self._next_round: Timer | None = None
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def budget(self) -> Budget:
        """The budget of the loop's round."""
        return self._loop.budget

    def watch(self, connection: Pollable, events: int) -> None:
        """Serve a connection at these epoll events from now on, in place of earlier ones.

        While the connection is paused, EPOLLIN is ignored until the pause ends.
        """
        fd = connection.fileno()
        self._events[fd] = events
        if connection in self._paused:
            events &= ~select.EPOLLIN
        if self._connections.get(fd) is connection:
            self._epoll.modify(fd, events)
        else:
            # A closed socket has left the epoll set; its descriptor's number may be in use again.
            self._listeners.pop(fd, None)
            self._connections[fd] = connection
            self._epoll.register(fd, events)

    def pause(self, connection: Pollable, delay_ns: int) -> None:
        """Take no data from a connection for ``delay_ns``; call only in its ``take``.

        Writing continues. Do nothing for a closed or already paused connection. Data that the
        connection has read are served when the pause ends.
        """
        if connection not in self._paused and connection.fileno() >= 0:
            resume = partial(self._resume, connection)
            self._paused[connection] = self._loop.call_later(delay_ns, resume)
            self.watch(connection, self._events[connection.fileno()])

    def _resume(self, connection: Pollable) -> None:
        """End a pause: watch EPOLLIN again and serve the connection; do nothing more if closed."""
        del self._paused[connection]
        fd = connection.fileno()
        if fd >= 0:
            self.watch(connection, self._events[fd])
            self._waiting[connection] = None
            if self._next_round is None:
                self._serve()

    def listen(self, fd: int, accept: Callable[[], None]) -> None:
        """Call ``accept`` when a connection waits at the listening socket ``fd``."""
        self._listeners[fd] = accept
        self._epoll.register(fd, select.EPOLLIN)

    def ignore(self, fd: int) -> None:
        """Stop calling ``accept`` for this listening socket; call before closing the socket."""
        if self._listeners.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Stop watching all descriptors, and close the epoll descriptor; connections stay open."""
        if self._next_round is not None:
            self._next_round.cancel()
        for timer in self._paused.values():
            timer.cancel()
        self._waiting.clear()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _ready(self) -> None:
        """Handle the ready descriptors: write, take packets, then accept new connections.

        Packets are left to the scheduled round if there is one.
        """
        visited = []
        for fd, events in self._epoll.poll(0):
            if fd in self._listeners:
                visited.append(self._listeners[fd])
            elif (connection := self._connections.get(fd)) is not None:
                if events & _EPOLLOUT:
                    try:
                        connection.on_writable()
                    except Exception:
                        _fail(connection)
                if events & ~_EPOLLOUT and connection not in self._paused:
                    self._waiting[connection] = None
        if self._next_round is None:
            self._serve()
        # Accept last: a HELLO received above first removes its connection from the ungreeted ones.
        for accept in visited:
            accept()

    def _serve(self) -> None:
        """Take packets from the ready connections, up to PACKETS_PER_ROUND and the budget.

        Connections with more packets wait for the next round, which is scheduled here.
        """
        left, budget = PACKETS_PER_ROUND, self._loop.budget
        for connection in list(self._waiting):
            if left <= 0 or budget.steps > CLIENT_BUDGET:
                break
            del self._waiting[connection]
            try:
                left -= connection.take(min(left, PACKETS_PER_CONNECTION))
            except Exception:
                _fail(connection)
                left -= 1
            if connection.has_more and connection not in self._paused:
                self._waiting[connection] = None
        if self._waiting:
            self._next_round = self._loop.call_later(0, self._go_on)

    def _go_on(self) -> None:
        self._next_round = None
        self._serve()


def _fail(connection: Pollable) -> None:
    """Log the current exception, and close the connection with "internal error"."""
    log.exception("%s: internal error", connection.name)
    connection.close("internal error")
