"""The small interfaces through which the device core reaches the outside: memory, interrupts, wire,
clock.

The core (``emu.device``) does no I/O. Its caller passes objects with these interfaces: a test
passes a bytearray, a list and a clock that it advances by hand; a service passes a vfio-user
client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from emu.device.rounds.budget import Budget

Buffer = bytes | bytearray | memoryview


CarryTrain = Callable[[Sequence[Buffer]], bool]
"""Takes the segments of a train's frame (``emu.device.port.train``), which it does not keep;
returns the same as ``Wire.transmit``.
"""


class DmaError(Exception):
    """The guest has not granted the address range (not RAM, not mapped, or read-only)."""

    def __init__(self, iova: int, length: int, why: str = "not mapped") -> None:
        super().__init__(f"DMA {iova:#x}+{length:#x}: {why}")
        self.iova = iova
        self.length = length


class GuestMemory(Protocol):
    """Guest memory by IOVA (the address from the driver's DMA mapping).

    Every method raises :class:`DmaError` before anything changes when a byte of the range is not
    granted for the access. A memoryview is valid until control returns to the transport, where the
    guest's memory map may change. Code that caches a view drops it in
    :meth:`PciFunction.forget_views`.
    """

    forget_views: Callable[[], None]
    """Called at once whenever views taken earlier may have become invalid."""

    def read(self, iova: int, length: int) -> bytes:
        """Copy ``length`` bytes out of the guest."""

    def write(self, iova: int, data: Buffer) -> None:
        """Copy ``data`` into the guest."""

    def view(self, iova: int, length: int, *, writable: bool = True) -> memoryview:
        """Return the guest's own bytes (format B) of a range inside one mapping.

        Memory that the guest grants for reading only needs ``writable=False``. A range over two
        mappings raises :class:`DmaError`; use ``segments`` for it.
        """

    def segments(self, iova: int, length: int, *, writable: bool = True) -> list[memoryview]:
        """Return the guest's own bytes of a range, in order, one view for each mapping."""

    def equal_views(
        self, starts: Sequence[int], size: int, *, writable: bool = True
    ) -> list[memoryview]:
        """Return the guest's own bytes of ranges of the same ``size``, in order, one view for each.

        The list is empty unless the most recently used mapping grants all ranges; call ``segments``
        in that case.
        """

    def watch(self, check: Callable[[int, int, bool], None] | None) -> None:
        """Call ``check(iova, length, is_write)`` before each access; None removes the check.

        An exception from ``check`` refuses the access. A new check calls ``forget_views``. The
        memory calls ``check`` itself, because queues keep the memory object that they were created
        with and would bypass a wrapper.
        """

    def permit(self, allowed: bool) -> None:
        """Allow or forbid the function to master the bus; allowed at first.

        While forbidden, nothing is granted and every access raises :class:`DmaError`; the mappings
        are kept. A change of the permission calls ``forget_views``.
        """


class Interrupts(Protocol):
    """The function's MSI-X vectors."""

    def trigger(self, vector: int) -> None:
        """Raise ``vector``; a vector that the guest has not enabled is latched until the guest
        enables it.
        """

    def pending(self, vector: int) -> bool:
        """Return whether ``vector`` is latched: its bit in the MSI-X pending bit array."""

    def clear_pending(self) -> None:
        """Clear all latched vectors, as a reset of the function does."""

    def permit(self, allowed: bool) -> None:
        """Allow or forbid the function to master the bus, which MSI-X messages need; allowed at
        first.

        While forbidden, every vector is latched; the permission sends the vectors that the guest
        has enabled.
        """


NodeT = TypeVar("NodeT")
"""A function, in the view of functions that send to it directly."""


class Wire(Protocol[NodeT]):
    """The network between functions, in the view of one of them.

    An address identifies a node on the link layer: a LID on InfiniBand.
    """

    def attach(self, node: NodeT, /) -> None:
        """Register the function under its port's address; after a reset, replace its state."""

    def port_changed(self, node: NodeT, /) -> None:
        """Record that the function's port went up or down."""

    def node(self, address: int, /) -> NodeT | None:
        """Return the function with this address if it is in this process: messages to it are direct
        calls.
        """

    def needs_packets(self, address: int, node: NodeT | None, /) -> bool:
        """Return whether messages to this address must be sent as packets; False for address 0.

        ``node`` is the result of :meth:`node` for the address.
        """

    def transmit(self, source: NodeT, frame: bytes, sqn: int = 0, /) -> bool:
        """Carry a frame of the link layer, which may be lost; return False when the path is
        congested.

        ``sqn`` is the number of the queue that sends the frame, 0 when unknown: the frame does not
        contain it. After False, wait for ``when_ready``: earlier frames may be dropped.
        """

    def train_to(self, source: NodeT, address: int, mtu: int, /) -> CarryTrain | None:
        """Return the carrier of packet trains to this address, with ``mtu`` bytes per packet.

        The result is valid for now only; None where each packet has to be sent alone.
        """

    def when_ready(self, address: int, callback: Callable[[], None], /) -> None:
        """Call ``callback`` once, when frames to this address may be sent again."""


class WireWrapper(Wire[NodeT]):
    """A wire around another one, to which it forwards every call.

    A subclass overrides what it intercepts. Only functions with such a wire pay for it.
    """

    def __init__(self, inner: Wire[NodeT]) -> None:
        self.inner = inner

    def attach(self, node: NodeT, /) -> None:
        """Register the function with the wrapped wire."""
        self.inner.attach(node)

    def port_changed(self, node: NodeT, /) -> None:
        """Notify the wrapped wire of the function's port."""
        self.inner.port_changed(node)

    def node(self, address: int, /) -> NodeT | None:
        """Return the function that the wrapped wire finds."""
        return self.inner.node(address)

    def needs_packets(self, address: int, node: NodeT | None, /) -> bool:
        """Return whether the wrapped wire needs packets."""
        return self.inner.needs_packets(address, node)

    def transmit(self, source: NodeT, frame: bytes, sqn: int = 0, /) -> bool:
        """Carry the frame on the wrapped wire; return its result."""
        return self.inner.transmit(source, frame, sqn)

    def train_to(self, source: NodeT, address: int, mtu: int, /) -> CarryTrain | None:
        """Return the wrapped wire's carrier of trains."""
        return self.inner.train_to(source, address, mtu)

    def when_ready(self, address: int, callback: Callable[[], None], /) -> None:
        """Call ``callback`` when the wrapped wire is ready."""
        self.inner.when_ready(address, callback)


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Cancel the call; harmless after the call."""


class Clock(Protocol):
    """Monotonic time, and the budget of the event loop that runs by it."""

    @property
    def budget(self) -> Budget:
        """Return the budget of the current round, shared by all users of the clock."""

    def now_ns(self) -> int:
        """Return nanoseconds since a fixed, arbitrary moment."""

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once, ``delay_ns`` from now, from the loop that runs the device."""


class PciFunction(Protocol):
    """One PCI function as seen from the bus; a transport serves it.

    The function checks offsets and sizes: an access outside a region reads all-ones and writes
    nothing. No method blocks or raises for anything that a guest can do.
    """

    on_work: Callable[[], None]
    """Called when a packet or another function gives the function work after ``run`` has returned
    False. Accesses of its own client and timer callbacks may add work without this call.
    """

    @property
    def bar_sizes(self) -> tuple[int, int, int, int, int, int]:
        """Bytes of BAR 0 to 5; 0 for a BAR that does not exist."""

    @property
    def msix_vectors(self) -> int:
        """Size of the MSI-X table."""

    def config_read(self, offset: int, length: int) -> bytes:
        """Read configuration space (4096 bytes)."""

    def config_write(self, offset: int, data: Buffer) -> None:
        """Write configuration space; read-only bits keep their value."""

    @property
    def is_round_used(self) -> bool:
        """Whether work, such as resets by configuration space, has used more than CLIENT_BUDGET.

        Further requests of the client then wait for the next round. Polls end at POLL_BUDGET, so
        polls alone do not make requests wait.
        """

    def bar_read(self, bar: int, offset: int, length: int) -> bytes:
        """Read ``length`` bytes of a BAR."""

    def bar_write(self, bar: int, offset: int, data: Buffer) -> None:
        """Write a BAR. A doorbell is only recorded; ``run`` does the work."""

    def reset(self) -> None:
        """Return to the state after power-on (function-level reset, bus reset, guest reboot)."""

    def forget_views(self) -> None:
        """Drop every cached view of guest memory, because the map has changed.

        A later access must find the new map, and a view keeps unmapped memory mapped.
        """

    def poll(self) -> bool:
        """Do pending work within the round's budget; return whether more is pending."""
