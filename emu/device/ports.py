"""The four small interfaces through which the device core reaches the outside.

The core (all of ``emu`` except ``vfio``, ``net``, ``lab``, ``control``, ``host``, ``service`` and
the command line) does no I/O. It is given objects with these interfaces: a test passes a bytearray,
a list and a clock that it advances by hand, a service passes a vfio-user client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from emu.device.rounds.budget import Budget

Buffer = bytes | bytearray | memoryview


CarryTrain = Callable[[Sequence[Buffer]], bool]
"""Takes the pieces of a train's frame (``emu.device.port.train``), which it does not keep; returns
what ``Wire.transmit`` does."""


class DmaError(Exception):
    """An address range that the guest has not granted (not RAM, or not mapped, or read-only)."""

    def __init__(self, iova: int, length: int, why: str = "not mapped") -> None:
        super().__init__(f"DMA {iova:#x}+{length:#x}: {why}")
        self.iova = iova
        self.length = length


class GuestMemory(Protocol):
    """Guest memory by IOVA (the address that the driver's DMA mapping gave it).

    Every method raises :class:`DmaError` before anything changes when a byte of the range is not
    granted for the access. A memoryview is valid until control returns to the transport, where the
    guest's map may change. Who keeps one longer compares ``generation`` before using it again, and
    drops it in :meth:`PciFunction.forget_views`.
    """

    @property
    def generation(self) -> int:
        """A number that changes whenever a view taken before may no longer be the guest's."""

    def read(self, iova: int, length: int) -> bytes:
        """Copy ``length`` bytes out of the guest."""

    def write(self, iova: int, data: Buffer) -> None:
        """Copy ``data`` into the guest."""

    def view(self, iova: int, length: int, *, writable: bool = True) -> memoryview:
        """The guest's own bytes (format B) of a range inside one mapping.

        Memory that the guest grants for reading only needs ``writable=False``. A range over two
        mappings raises :class:`DmaError`; use ``segments`` for it.
        """

    def segments(self, iova: int, length: int, *, writable: bool = True) -> list[memoryview]:
        """The guest's own bytes of a range, in order, one view for each mapping."""

    def equal_views(
        self, starts: Sequence[int], size: int, *, writable: bool = True
    ) -> list[memoryview]:
        """The guest's own bytes of ranges of the same ``size``, in order, one view for each.

        Nothing unless the mapping that was used last grants all of them: ``segments`` tells then.
        """

    def watch(self, check: Callable[[int, int, bool], None] | None) -> None:
        """Call ``check(iova, length, is_write)`` before each access; None removes the check.

        An exception that it raises refuses the access. A new check changes ``generation``. The
        memory does this itself because queues keep the object they were created with, so they
        would not use a wrapper.
        """

    def permit(self, allowed: bool) -> None:
        """Whether the function may master the bus; it may until told otherwise.

        While it may not, nothing is granted and every access raises :class:`DmaError`; the mappings
        are remembered until it may again. A new permission changes ``generation``.
        """


class Interrupts(Protocol):
    """The function's MSI-X vectors."""

    def trigger(self, vector: int) -> None:
        """Raise ``vector``; one that the guest has not enabled yet is latched until it is."""

    def pending(self, vector: int) -> bool:
        """True while ``vector`` is latched: its bit in the MSI-X pending bit array."""

    def clear_pending(self) -> None:
        """Forget what is latched, as a reset of the function does."""

    def permit(self, allowed: bool) -> None:
        """Whether the function may master the bus, as an MSI-X message needs; allowed at first.

        While it may not, every vector is latched; the permission sends what the guest has enabled.
        """


NodeT = TypeVar("NodeT")
"""A function, as those that send to it directly know it."""


class Wire(Protocol[NodeT]):
    """What lies between functions, as one of them sees it.

    An address is what the link layer calls a node by: a LID on InfiniBand.
    """

    def attach(self, node: NodeT, /) -> None:
        """The function is present under its port's address; after a reset, its new state is."""

    def port_changed(self, node: NodeT, /) -> None:
        """The function's port has come up or gone down."""

    def node(self, address: int, /) -> NodeT | None:
        """The function with this address when it is in this process: messages to it go directly."""

    def reaches(self, address: int, /) -> bool:
        """Whether the node with this address is in another process: frames go there."""

    def transmit(self, source: NodeT, frame: bytes, sqn: int = 0, /) -> bool:
        """Carry a frame of the link layer; it may be lost.

        ``sqn`` is the number of the queue that sends it, 0 when none is known: the frame does not
        tell. False when the way is congested: ``when_room`` says when the next one should come.
        What comes earlier may be dropped.
        """

    def train_to(self, source: NodeT, address: int, mtu: int, /) -> CarryTrain | None:
        """What carries trains of packets with ``mtu`` bytes each to this address, for now.

        None where each has to go alone.
        """

    def when_room(self, address: int, callback: Callable[[], None], /) -> None:
        """Call ``callback`` once, when frames to this address may be sent again."""


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Make the call not happen; harmless when it already has."""


class Clock(Protocol):
    """Monotonic time, and the budget of the event loop that runs by it."""

    @property
    def budget(self) -> Budget:
        """Return the budget of the current round, shared by all users of the clock."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment."""

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` once, ``delay_ns`` from now, from the loop that runs the device."""


class PciFunction(Protocol):
    """What a transport serves: one PCI function, seen from the bus.

    Offsets and sizes are checked by the function: an access outside a region reads all-ones and
    writes nothing. No method blocks or raises for anything that a guest can do.
    """

    on_work: Callable[[], None]
    """Called when a packet, or another function, gives it work after ``run`` has seen that there is
    none. Accesses of its own client and the clock's calls may do so without a call."""

    @property
    def bar_sizes(self) -> tuple[int, int, int, int, int, int]:
        """Bytes of BAR 0 to 5, 0 where there is none."""

    @property
    def msix_vectors(self) -> int:
        """Size of the MSI-X table."""

    def config_read(self, offset: int, length: int) -> bytes:
        """Read configuration space (4096 bytes)."""

    def config_write(self, offset: int, data: Buffer) -> None:
        """Write configuration space; read-only bits keep their value."""

    def bar_read(self, bar: int, offset: int, length: int) -> bytes:
        """Read ``length`` bytes of a BAR."""

    def bar_write(self, bar: int, offset: int, data: Buffer) -> None:
        """Write a BAR. A doorbell is only noted here; ``run`` does the work."""

    def reset(self) -> None:
        """Return to the state after power-on (function-level reset, bus reset, guest reboot)."""

    def forget_views(self) -> None:
        """Drop every cached view of guest memory; a view would keep unmapped memory mapped."""

    def run(self) -> bool:
        """Do a bounded share of the pending work; True when there is more to do."""
