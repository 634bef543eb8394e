"""The link layer interface, as used by the rest of the device.

An adapter has a :class:`Port`, whose cable can be pulled. A function has a :class:`Vport`, whose
state and counters the driver queries. A function also has a ``Link`` (``emu.device.port.link``),
by which transport services address peers and build link layer headers. A wire carries the frames
(``emu.device.ports.Wire``). On InfiniBand (``emu.device.port.ib``) one object implements all three.
On Ethernet (``emu.device.port.eth``) RoCE is the link.
"""

from __future__ import annotations

from typing import Final, Protocol

from emu.device.port.counts import Counting


class Count(Protocol):
    """Traffic of one kind."""

    @property
    def packets(self) -> int:
        """Number of packets or frames."""

    @property
    def octets(self) -> int:
        """Number of bytes, as the link layer counts them."""


NODE_DESCRIPTION_BYTES: Final = 64


class Port(Protocol):
    """The physical port of any link layer."""

    @property
    def is_up(self) -> bool:
        """Whether the link is up."""

    @property
    def admin_up(self) -> bool:
        """Whether the driver has enabled the port."""

    @property
    def has_cable(self) -> bool:
        """Whether the cable is plugged in."""

    def set_link(self, *, up: bool) -> None:
        """Plug the cable in, or pull it; count a link failure. No event is sent."""

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port for the driver; count a link failure if the link goes down."""

    @property
    def link_state(self) -> str:
        """The link's state, as text."""


class Vport(Counting, Protocol):
    """The virtual port of any link layer."""

    node_description: bytes
    """NODE_DESCRIPTION_BYTES bytes; the driver sets the text."""

    @property
    def guid(self) -> int:
        """Port and node GUID."""

    @property
    def is_up(self) -> bool:
        """Whether packets can be sent and received."""

    @property
    def address(self) -> str:
        """The port's address, as text."""

    def totals(self) -> tuple[Count, Count]:
        """Return the sent and received traffic since power-on."""
