"""The main loop: a thread that waits for clients, timers and other descriptors.

With a single, connected transport and nothing else to watch, the loop blocks in that transport's
receive call. A poll() before every receive would double the time of a guest's MMIO read. Otherwise
the loop polls. While messages arrive in quick succession and a processor is idle, a wait spins
before it sleeps (``waits/spinning.py``).

A function with pending work runs in bounded polls with checks for messages in between, so an MMIO
read waits for at most one poll. A function without pending work is not called: the cost of a
client's service does not depend on the number of the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from struct import Struct
from types import FrameType
from typing import Final

from emu.device.ports import PciFunction
from emu.device.rounds.budget import POLL_BUDGET
from emu.server.vfio.base import Transport
from emu.server.vfio.waits.alarm import ALARM
from emu.server.vfio.waits.spinning import Spin
from emu.server.vfio.waits.timers import TimerQueue
from emu.server.vfio.waits.waiting import wait_readable

logger = logging.getLogger(__name__)

# fcntl(2) constants without names in Python.
_F_SETOWN_EX: Final = 15
_F_OWNER_TID: Final = 0
_OWNER: Final = Struct("@ii")

_QUIET_NS: Final = 2_000_000_000
"""Longest delay of a quiet reader whose signal arrives just before the receive call: Python notes
the signal but cannot end the call. The case is rare, and a driver's health poll, every two seconds,
also ends such a wait. A shorter limit would wake an idle server more often."""

_Wanted = tuple[Transport | None, int]
"""The transport of a descriptor (None: a reader) and the events to wait for."""


class Loop(TimerQueue):
    """Drives transports, timers and readers; also the functions' :class:`emu.device.ports.Clock`.

    All callbacks run in the thread that calls :meth:`run`. Functions, clients and connections each
    contain their own unexpected exceptions; the loop logs any other one and continues.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stopping = False
        self._transports: list[Transport] = []
        self.served: PciFunction | None = None
        """The function that runs, or whose client is served; None while others' callbacks run."""
        self._awake: dict[PciFunction, None] = {}
        """The functions that may have work, in the order of their polls."""
        self._sole: Transport | None = None
        self._readers: dict[int, Callable[[], None]] = {}
        self._quiet: set[int] = set()
        self._nudged = False
        """Whether a quiet reader may have data."""
        self._restore_signal: Callable[[], object] | None = None
        self._poll = select.poll()
        self._spin = Spin()
        self._polled: dict[int, _Wanted] = {}
        self._is_stale = True
        """Whether the descriptors to poll may differ from ``_polled``."""
        self._behind: list[Transport] = []
        """Transports with received messages."""
        self._readable: list[int] = []
        self._woken_fd, self._wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.add_reader(self._woken_fd, self._woken)

    def add_transport(self, transport: Transport) -> None:
        """Serve a transport whose ``listen`` was called, one client after the other.

        Sets the function's ``on_work`` and schedules its first poll.
        """
        self._transports.append(transport)
        function = transport.function
        function.on_work = partial(self._wake_function, function)
        self._wake_function(function)
        self._choose()

    def remove_transport(self, transport: Transport) -> None:
        """Stop serving a transport, and reset the function's ``on_work``.

        The caller closes the transport. Raises ValueError for a transport that was not added.
        """
        self._transports.remove(transport)
        transport.function.on_work = lambda: None
        self._awake.pop(transport.function, None)
        self._choose()

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback``, which must not block, whenever ``fd`` is readable or hung up."""
        self._readers[fd] = callback
        self._choose()

    def add_quiet_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """Add a reader for a descriptor that seldom has data, at no cost while idle.

        The kernel sends SIGIO when data arrive (fcntl(2): O_ASYNC), so that a sole transport can
        continue to block in its receive call. ``callback`` is then called in the next round, in
        rare cases up to 2 s later. Signals need the main thread; in another thread this is an
        ordinary reader.
        """
        if threading.current_thread() is threading.main_thread():
            if self._restore_signal is None:
                previous = signal.signal(signal.SIGIO, self._nudge)
                self._restore_signal = lambda: signal.signal(signal.SIGIO, previous)
            self._quiet.add(fd)
            # Signal this thread: interrupting another thread's system call would be useless.
            fcntl.fcntl(fd, _F_SETOWN_EX, _OWNER.pack(_F_OWNER_TID, threading.get_native_id()))
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
            # Data may have arrived before the signal was enabled.
            self._nudged = True
        self.add_reader(fd, callback)

    def remove_reader(self, fd: int) -> None:
        """Stop watching ``fd``, quiet or not; call before closing the descriptor.

        Raises KeyError for a descriptor without a reader.
        """
        del self._readers[fd]
        if fd in self._quiet:
            self._quiet.discard(fd)
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        self._choose()

    def run(self) -> None:
        """Run rounds until :meth:`stop`; return at once when ``stop`` was called before.

        Each return clears the request to stop, so that the loop can run again.
        """
        while not self._stopping:
            self.step(None)
        self._stopping = False

    def step(self, timeout_ns: int | None = 0) -> None:
        """Run a round: waiters of earlier rounds, due timers, functions' work, then messages.

        The round's budget (:mod:`emu.device.rounds`) bounds all of this together. Waits for
        messages no longer than ``timeout_ns`` (None: for ever) or until the next timer, and not at
        all while a function has pending work. Exceptions of callbacks are logged, not raised.
        """
        self.budget.begin()
        self.served = None
        if self._nudged and self._call_quiet_readers():
            timeout_ns = 0
        if self._heap or self.budget.is_waiting:
            self.budget.is_gathering = True
            if self.run_due() or self.budget.is_waiting:
                self._wake_functions()
            self.budget.release()
        if self._run_functions():
            timeout_ns = 0
        self.budget.end_polls()
        self.budget.listen()
        if timeout_ns != 0 and self._heap and (due_ns := self.next_ns()) is not None:
            timeout_ns = due_ns if timeout_ns is None else min(due_ns, timeout_ns)
        sole = self._sole
        if sole is not None and sole.may_wait:
            if self._quiet and (timeout_ns is None or timeout_ns > _QUIET_NS):
                timeout_ns = _QUIET_NS
            self._is_stale = True
            self.served = function = sole.function
            _guarded(sole.serve, timeout_ns)
            self._awake[function] = None
        else:
            self._poll_once(timeout_ns)

    def _run_functions(self) -> bool:
        """Let functions work until the round's budget is used; return whether work is left.

        Polls each function at most once. Functions that were not polled come first in the next
        round. True also while a user of the budget waits for the next round.
        """
        awake, budget = self._awake, self.budget
        if not awake:
            return budget.is_waiting
        had: dict[PciFunction, None] = {}
        again: dict[PciFunction, None] = {}
        while awake and budget.steps <= POLL_BUDGET:
            function = next(iter(awake))
            del awake[function]
            if function in had:  # woken by another function: next round
                again[function] = None
                continue
            had[function] = None
            self.served = function
            if function.poll():
                again[function] = None
        if again:
            awake.update(again)
        return bool(awake) or budget.is_waiting

    def _wake_function(self, function: PciFunction) -> None:
        """Record that a function may have work."""
        self._awake[function] = None

    def _wake_functions(self) -> None:
        """Record that every function may have work after timers or readers ran."""
        for transport in self._transports:
            self._awake[transport.function] = None

    def stop(self) -> None:
        """Make :meth:`run` return. From its own thread only, which includes signal handlers."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Make the loop run at least one more round. From its own thread and signal handlers."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_fd, b"\0")
        if self._sole is not None:
            self._sole.wake()

    @contextmanager
    def stopped_by(self, *signals: signal.Signals) -> Iterator[None]:
        """Let these signals stop the loop while the body runs. Only in the main thread.

        At the end the previous handlers and wake-up descriptor are restored. Meanwhile a client
        cannot make an interrupt's write block (``emu.server.vfio.waits.alarm``).
        """

        def stop(_signum: int, _frame: FrameType | None) -> None:
            self.stop()

        # For a signal just before poll(), Python delays the handler. The byte that it writes to the
        # wake-up descriptor at once ends the poll.
        previous_fd = signal.set_wakeup_fd(self._wake_fd, warn_on_full_buffer=False)
        previous = {number: signal.signal(number, stop) for number in signals}
        try:
            with ALARM.ready(self.wake):
                yield
        finally:
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Close every transport and the loop's own descriptors; restore the handler of SIGIO.

        Readers' descriptors stay open. Call once.
        """
        for transport in self._transports:
            transport.close()
        if self._restore_signal is not None:
            self._restore_signal()
        os.close(self._woken_fd)
        os.close(self._wake_fd)

    def _choose(self) -> None:
        """Set ``_sole`` to the only transport if it is the only event source, else to None.

        Quiet readers and the loop's own wake-up descriptor do not count. Marks the polled
        descriptors as stale.
        """
        alone = len(self._transports) == 1 and len(self._readers) == 1 + len(self._quiet)
        self._sole = self._transports[0] if alone else None
        self._is_stale = True

    def _nudge(self, _signum: int, _frame: FrameType | None) -> None:
        self._nudged = True
        if self._sole is not None:
            self._sole.wake()

    def _call_quiet_readers(self) -> bool:
        """Call the quiet readers that have data.

        Return whether any had, and then check again next round.
        """
        self._nudged = False
        ready = select.poll()
        for fd in self._quiet:
            ready.register(fd, select.POLLIN)
        for fd, events in ready.poll(0):
            # A signal may stand for several arrivals: check again until there are no data.
            self._nudged = True
            self._read(fd, events)
        return self._nudged

    def _poll_once(self, timeout_ns: int | None) -> None:
        """Poll all descriptors once, for up to ``timeout_ns``, and serve those that are ready.

        Calls readers, serves connected transports, accepts clients for the others. Does not wait
        while a transport has received messages pending; each of them is served as well.
        """
        if self._is_stale:
            self._poll_these(self._to_poll())
        requested, behind = self._polled, self._behind
        if behind:
            timeout_ns = 0
        ready = self._spin.spin(self._poll, timeout_ns)
        for fd, events in ready or wait_readable(self._poll, self._readable, timeout_ns):
            transport_or_none, _ = requested[fd]
            if transport_or_none is None:
                self._read(fd, events)
            elif transport_or_none.connected:
                self._serve(transport_or_none, 0)
            else:
                _guarded(transport_or_none.accept)
                self._is_stale = True
        for transport in behind:
            self._serve(transport, 0)

    def _serve(self, transport: Transport, timeout_ns: int | None) -> None:
        """Serve a transport.

        Then schedule its function, and note a change of its descriptor or events.
        """
        self.served = transport.function
        _guarded(transport.serve, timeout_ns)
        self._wake_function(transport.function)
        if self._polled.get(transport.fileno()) != (transport, transport.events):
            self._is_stale = True

    def _to_poll(self) -> dict[int, _Wanted]:
        """Return the descriptors to poll, with their transports and events."""
        requested: dict[int, _Wanted] = dict.fromkeys(self._readers, (None, select.POLLIN))
        for transport in self._transports:
            requested[transport.fileno()] = transport, transport.events
        return requested

    def _poll_these(self, requested: dict[int, _Wanted]) -> None:
        """Set the descriptors to poll; do nothing if they are the same as before.

        A transport without events to wait for has messages pending and is served in each round
        instead. A descriptor of -1 (closed) is not polled.
        """
        self._is_stale = False
        if requested == self._polled:
            return
        self._polled = requested
        self._behind = [one for one, events in requested.values() if one is not None and not events]
        self._readable = [fd for fd, (_, events) in requested.items() if events == select.POLLIN]
        self._poll = select.poll()
        for fd, (_, events) in requested.items():
            if fd >= 0 and events:
                self._poll.register(fd, events)

    def _read(self, fd: int, events: int) -> None:
        """Call a reader, unless an earlier callback has removed it; then wake every function.

        Writes of the callback are collected and written together. A descriptor that was closed
        without :meth:`remove_reader` is logged as an error and removed.
        """
        self.served = None
        callback = self._readers.get(fd)
        if callback is None:
            return
        if events & select.POLLNVAL:
            logger.error("descriptor %d was closed without remove_reader", fd)
            self.remove_reader(fd)
        else:
            self.budget.is_gathering = True
            _guarded(callback)
            self._wake_functions()
            self.budget.release()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken_fd, 4096)


def _guarded(call: Callable[..., None], *arguments: object) -> None:
    """Make a call; log an exception of it, and do not raise."""
    try:
        call(*arguments)
    except Exception:
        logger.exception("internal error in the loop")
