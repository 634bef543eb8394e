"""The main loop: one thread that waits for clients, timers and other descriptors.

With one transport, connected, and nothing else to watch, it blocks in that transport's receive
call: poll() before every receive would double the time of a guest's MMIO read. Otherwise it polls.
A function with work left is run in bounded shares and messages are looked for between them, so an
MMIO read never waits for more than one share.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from emu.ports import PciFunction
from emu.transport.base import Transport
from emu.transport.timers import TimerQueue

logger = logging.getLogger(__name__)


class Loop(TimerQueue):
    """Drives transports and what belongs to them; also the functions' :class:`emu.ports.Clock`.

    All callbacks run in the thread that calls :meth:`run`; an exception from one ends it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stopping = False
        self._transports: list[Transport] = []
        self._functions: list[PciFunction] = []
        self._sole: Transport | None = None
        self._readers: dict[int, Callable[[], None]] = {}
        self._poll = select.poll()
        self._polled: dict[int, Transport | None] = {}
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.add_reader(self._wake_fd, self._woken)

    def add_transport(self, transport: Transport) -> None:
        """Serve a transport whose ``listen`` has been called: its clients one after the other."""
        self._transports.append(transport)
        self._functions.append(transport.function)
        self._choose()

    def remove_transport(self, transport: Transport) -> None:
        """Leave a transport alone from now on; closing it is the caller's."""
        at = self._transports.index(transport)
        del self._transports[at], self._functions[at]
        self._choose()

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever ``fd`` is readable or hung up; it must not block."""
        self._readers[fd] = callback
        self._choose()

    def remove_reader(self, fd: int) -> None:
        """Watch ``fd`` no longer; to be called before it is closed."""
        del self._readers[fd]
        self._choose()

    def run(self) -> None:
        """Go round until :meth:`stop`; at once back when it was called before."""
        while not self._stopping:
            self.step(None)
        self._stopping = False

    def step(self, timeout_ns: int | None = 0) -> None:
        """One round: due timers, one share of each function's work, then messages.

        Waits for messages no longer than ``timeout_ns`` (None: for ever) or until the next timer,
        and not at all while a function has work left.
        """
        self.run_due()
        for function in self._functions:
            if function.run():
                timeout_ns = 0
        if timeout_ns != 0 and (due_ns := self.next_ns()) is not None:
            timeout_ns = due_ns if timeout_ns is None else min(due_ns, timeout_ns)
        sole = self._sole
        if sole is not None and sole.connected:
            sole.serve(timeout_ns)
        else:
            self._poll_once(timeout_ns)

    def stop(self) -> None:
        """Make :meth:`run` return. From its own thread only, which includes signal handlers."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Make the loop go round at least once more. From its own thread and signal handlers."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._wake_fd, 1)
        if self._sole is not None:
            self._sole.wake()

    @contextmanager
    def stopped_by(self, *signals: signal.Signals) -> Iterator[None]:
        """While inside, these signals stop the loop. Only in the main thread."""

        def stop(_signum: int, _frame: FrameType | None) -> None:
            self.stop()

        previous = {number: signal.signal(number, stop) for number in signals}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Close every transport and the loop's own descriptor."""
        for transport in self._transports:
            transport.close()
        os.close(self._wake_fd)

    def _choose(self) -> None:
        """Whether one transport is all there is to wait for, besides our own wake-up."""
        alone = len(self._transports) == 1 and len(self._readers) == 1
        self._sole = self._transports[0] if alone else None

    def _poll_once(self, timeout_ns: int | None) -> None:
        wanted: dict[int, Transport | None] = dict.fromkeys(self._readers)
        wanted |= {transport.fileno(): transport for transport in self._transports}
        if wanted != self._polled:
            self._poll_these(wanted)
        limit_ms = None if timeout_ns is None else -(-timeout_ns // 1_000_000)
        for fd, events in self._poll.poll(limit_ms):
            transport = self._polled[fd]
            if transport is None:
                self._read(fd, events)
            elif transport.connected:
                transport.serve(0)
            else:
                transport.accept()

    def _poll_these(self, wanted: dict[int, Transport | None]) -> None:
        """Replace the polled descriptors; a transport's changes whenever a client comes or goes."""
        self._polled = wanted
        self._poll = select.poll()
        for fd in wanted:
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)

    def _read(self, fd: int, events: int) -> None:
        """Call a reader, unless one called just before has removed it."""
        callback = self._readers.get(fd)
        if callback is None:
            return
        if events & select.POLLNVAL:
            logger.error("descriptor %d was closed while it was watched", fd)
            self.remove_reader(fd)
        else:
            callback()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
