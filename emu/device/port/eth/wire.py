"""The wire of Ethernet functions, and a wrapper that intercepts it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.ports import CarryTrain, NodeT

NO_LIMIT: Final = 1 << 16
"""Number of frames above what a port is sent between two checks for a pause."""


class EthWire(Protocol[NodeT]):
    """The network to which an Ethernet port's cable is connected.

    The attached function is the manager of an adapter. Frames from the cable go to its ``switch``
    (``emu.device.adapter.adapter.Switch.receive``).
    """

    @property
    def changes(self) -> int:
        """Grows when a function joins or leaves the segment, and with ``port_changed``."""

    @property
    def wants_packets(self) -> bool:
        """Whether RoCE messages inside the process must be frames, for captures."""

    def nodes(self) -> Iterable[NodeT]:
        """Return the functions of this process on the same segment, including the attached one.

        RoCE finds its peers among them.
        """

    def attach(self, node: NodeT, /) -> None:
        """Attach the function; after a reset, the new state replaces the old one."""

    def port_changed(self, node: NodeT, /) -> None:
        """Record that the function's port has changed its link state or its addresses."""

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Return whether frames to a MAC address should wait, to avoid loss; none is refused.

        A lossless priority with flow control is paused in this case (IEEE 802.1Q 36).
        """

    def when_ready_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call ``callback`` once, at once or when frames to a MAC address need not wait."""

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Return the number of frames that may be sent to a MAC address now; 0 to wait.

        The limit is the posted receive WQEs of the port with that address, if it sends pause frames
        that ``flow`` obeys for this priority. NO_LIMIT otherwise. ``packets`` is the number of
        packets sent at once.
        """

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """Return the carrier of RoCE packet trains to a MAC address, for now.

        None if each packet must be a frame.
        """

    def transmit(self, source: NodeT, frame: Frame, /) -> None:
        """Transmit a frame, which may be lost and counted. Never blocks, never raises."""


class EthWireWrapper(EthWire[NodeT]):
    """A wire around another one, to which it forwards every call.

    A subclass overrides what it intercepts. Only functions with such a wire pay for it.
    """

    def __init__(self, inner: EthWire[NodeT]) -> None:
        self.inner = inner

    @property
    def changes(self) -> int:
        """Grow as the wrapped wire's does."""
        return self.inner.changes

    @property
    def wants_packets(self) -> bool:
        """Whether the wrapped wire wants packets."""
        return self.inner.wants_packets

    def nodes(self) -> Iterable[NodeT]:
        """Return the functions on the wrapped wire's segment."""
        return self.inner.nodes()

    def attach(self, node: NodeT, /) -> None:
        """Attach the function to the wrapped wire."""
        self.inner.attach(node)

    def port_changed(self, node: NodeT, /) -> None:
        """Notify the wrapped wire of the function's port."""
        self.inner.port_changed(node)

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Return whether the wrapped wire is congested."""
        return self.inner.is_pausing_to(mac)

    def when_ready_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call ``callback`` when the wrapped wire is no longer congested."""
        self.inner.when_ready_to(mac, callback)

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Return the wrapped wire's credits."""
        return self.inner.credits_to(mac, packets, flow, priority)

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """Return the wrapped wire's carrier of trains."""
        return self.inner.train_to(mac)

    def transmit(self, source: NodeT, frame: Frame, /) -> None:
        """Send the frame on the wrapped wire."""
        self.inner.transmit(source, frame)
