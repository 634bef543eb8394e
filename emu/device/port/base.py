"""A link layer, as the rest of the device sees it.

An adapter has a :class:`Port`, whose cable can be pulled. A function has a :class:`Vport`, whose
state and counters its driver asks for, and a :class:`Link`, by which its transport services address
their peers and put headers in front of their packets. What carries the frames is a wire
(``emu.device.ports.Wire``). InfiniBand is the first link layer (``emu.device.port.ib``): there one
object is all three. On Ethernet (``emu.device.port.eth``) RoCE is the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from emu.device.objects.queues.qp import GlobalRoute, Marks
from emu.device.port.congestion import Congestion
from emu.device.port.counts import Counting
from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.packet import Packet
from emu.device.port.recovery import LossRecovery

if TYPE_CHECKING:
    from layouts.objects.qp import Ads


class Count(Protocol):
    """Traffic of one kind."""

    @property
    def packets(self) -> int:
        """Number of packets or frames."""

    @property
    def octets(self) -> int:
        """All their bytes, as far as the link layer counts them."""


NODE_DESCRIPTION_BYTES: Final = 64


class Port(Protocol):
    """What the physical ports of all link layers have."""

    @property
    def is_up(self) -> bool:
        """Whether there is a link."""

    @property
    def admin_up(self) -> bool:
        """Whether the driver wants one."""

    @property
    def has_cable(self) -> bool:
        """Whether the cable is plugged in."""

    def set_link(self, *, up: bool) -> None:
        """SubnetPort the cable in, or pull it."""

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port as the driver asks."""

    @property
    def link_state(self) -> str:
        """The link's state, for people."""


class Vport(Counting, Protocol):
    """What the virtual ports of all link layers have."""

    node_description: bytes
    """NODE_DESCRIPTION_BYTES, of which the driver sets the text."""

    @property
    def guid(self) -> int:
        """Port and node GUID."""

    @property
    def is_up(self) -> bool:
        """Whether anything can pass."""

    @property
    def address(self) -> str:
        """Its address, for people."""

    def totals(self) -> tuple[Count, Count]:
        """What has been sent and received since power-on."""

    def count_discard(self) -> None:
        """Count a received packet that there was no way to take."""

    def count_too_small(self) -> None:
        """Count one that was longer than the request at its receive queue."""


class Route(Protocol):
    """What the packets of a connection share: where they go, and their link layer headers."""

    @property
    def address(self) -> int:
        """The peer, as the wire knows it."""

    def frame(self, packet: Packet, payload: Sequence[memoryview] = (), length: int = 0) -> bytes:
        """The packet with its headers and ``length`` bytes of ``payload``."""


class Link(Protocol):
    """How transport services reach their peers. A path is a view of a QP context's ads.

    An address is what ``emu.device.ports.Wire`` knows a node by: on InfiniBand its LID, on RoCE a
    number made of the source GID's index, the peer's MAC address and its GID.
    """

    @property
    def is_up(self) -> bool:
        """Whether packets can pass."""

    dropped: Counter[str]
    """Packets that were dropped, by what is wrong with them, in fixed words."""

    @property
    def congestion(self) -> Congestion | None:
        """Congestion control; None on a link layer where nobody switches it on."""

    @property
    def recovery(self) -> LossRecovery:
        """What connections do about lost packets."""

    @property
    def lid(self) -> int:
        """The LID that receivers are told; 0 on a link layer that has none."""

    def check_source(self, index: int) -> None:
        """Raise BAD_PARAM_ERR for the index of a source GID that a DC target cannot have.

        On InfiniBand it need not lead to a GID, as messages may come without a global route.
        """

    def check_path(self, path: Ads) -> None:
        """Raise BAD_PARAM_ERR for a path that no packet can take, whatever the subnet is like."""

    def destination(self, path: Ads) -> int:
        """The address that a path leads to."""

    @property
    def attributes(self) -> object:
        """What decides which packets are taken, and how long they may be.

        Equal as long as the GID and P_Key tables and the MTU are, however they are changed.
        """

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Bytes of the link layer's headers in front of each packet to an address.

        ``is_global``: the path wants a global route header, which RoCE always has.
        """

    @property
    def most_payload(self) -> int:
        """Payload that a packet of any opcode may have on this port's link."""

    def global_route(self, path: Ads) -> GlobalRoute | None:
        """The GIDs of a path's two ends, if its packets must have a global route header.

        None as well on a link layer whose addresses have them.
        """

    def marks(self, path: Ads) -> Marks | None:
        """How a path's packets are marked, for counters by priority; None where there are none."""

    def route(self, path: Ads) -> Route:
        """The route along a path."""

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """The packet in a frame, and where its base transport header begins.

        Its payload is a view of ``frame``. Raises BadPacketError.
        """

    def seal(self, frame: bytearray) -> None:
        """The packet in a frame has been changed: put its invariant CRC right."""

    def about(self, address: int) -> int | str:
        """An address for people."""

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """Why a packet does not come by a queue pair's path, in fixed words; empty when it does.

        ``peer`` is where the path leads, ``route`` its :meth:`global_route`.
        """

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """Why a packet with these GIDs in its header is none for the port; empty when it is one.

        In fixed words. For services without a path that says what they have to be.
        """

    def violated_pkey(self) -> None:
        """A packet has come with a P_Key that does not match (PortInfo.P_KeyViolations)."""

    def violated_qkey(self) -> None:
        """A datagram has come with a wrong Q_Key (PortInfo.Q_KeyViolations)."""

    def vector(self, raw: bytes) -> Destination:
        """An address vector (48 bytes, device.h: mlx5_av; the second half may be zeros)."""

    def address_to(self, to: Destination) -> int:
        """The address that an address vector leads to."""

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> Origin:
        """What the headers of a datagram that is sent from here say about its sender."""

    def has_sent(self, origin: Origin) -> bool:
        """Whether a received datagram was sent from this port."""

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """What a receive request gets with a datagram.

        The GRH_BYTES in front of the payload; cqe64.flags_rqpn without the QPN; the TCI of a VLAN
        tag, None without one.
        """

    def gid(self, index: int) -> bytes:
        """Entry of the GID table, 16 bytes."""

    def pkey(self, index: int) -> int:
        """Entry of the P_Key table, 0 where it is empty."""

    def count_sent(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count packets, and all their octets from the first header on.

        ``marks`` is what :meth:`marks` says of their path, if they count by priority.
        """

    def count_received(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets."""

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """Count the packets that a message to a queue pair in this process would have had."""

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """Count the same of a message between queue pairs of this port: packets, and those back."""

    def count_looped(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Of what counts as received, these packets have come from the port itself.

        They have not passed the physical port. Those to a group have passed it when they were sent.
        """
