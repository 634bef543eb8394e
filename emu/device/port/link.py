"""The link layer, in the views of the transport services that use it.

A function has one :class:`Link`. Each of its users takes the protocol that it needs: commands check
paths, connections and datagrams are sent along paths, receivers check packets, all count them.

A path is a view of a QP context's ads. An address identifies a node on
``emu.device.ports.Wire``. On InfiniBand the address is the LID. On RoCE the address is a number
made of the source GID's index, the peer's MAC address and its GID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from emu.device.objects.queues.direct_path import Marks, Uncounted
from emu.device.objects.queues.qp_context import GlobalRoute
from emu.device.port.congestion import Congestion
from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.packet import Packet
from emu.device.port.recovery import LossRecovery

if TYPE_CHECKING:
    from layouts.objects.qp import ads


class LinkState(Protocol):
    """The port behind the services."""

    @property
    def is_up(self) -> bool:
        """Whether packets can be sent and received."""

    @property
    def lid(self) -> int:
        """The LID that receivers get; 0 on a link layer without LIDs."""

    @property
    def attributes(self) -> object:
        """A value that changes with ``is_up``, and with the filter and the maximum length of
        received packets.

        Equal while ``is_up``, the contents of the GID and P_Key tables and the MTU are equal.
        """

    @property
    def max_payload(self) -> int:
        """Maximum payload of a packet with any opcode on this port's link, in bytes."""

    @property
    def recovery(self) -> LossRecovery:
        """Loss recovery of connections."""


class PathChecks(Protocol):
    """Checks of the paths that a driver sets in a context (commands of QPs and DC targets)."""

    def check_source(self, index: int) -> None:
        """Raise CmdError with BAD_PARAM_ERR for a source GID index that a DC target cannot have.

        On InfiniBand the index must be in the table but need not name a GID, as messages may arrive
        without a global route. On RoCE the entry must not be empty.
        """

    def check_path(self, path: ads) -> None:
        """Raise CmdError with BAD_PARAM_ERR for a path that is invalid on every subnet.

        On RoCE: without source GID, peer's GID or MAC address. On InfiniBand: a global route
        without a valid source GID.
        """


class Route(Protocol):
    """The destination and link layer headers that packets of a connection share."""

    @property
    def address(self) -> int:
        """The peer's address on the wire."""

    def frame(self, packet: Packet, payload: Sequence[memoryview] = (), length: int = 0) -> bytes:
        """Return the packet as a frame with headers and ``length`` bytes of ``payload``.

        Empty on RoCE while the source GID is empty.
        """


class Paths(Protocol):
    """Paths of connections, as QPs take them from their contexts and send along them."""

    def destination(self, path: ads) -> int:
        """Return the destination address of a path."""

    def global_route(self, path: ads) -> GlobalRoute | None:
        """Return the GIDs of a path whose packets must have a global route header, else None.

        None also on a link layer whose addresses contain the GIDs.
        """

    def marks(self, path: ads) -> Marks | None:
        """Return the priority markings of a path, or None where ports do not count by priority."""

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Return the bytes of link layer headers in front of each packet to an address.

        ``is_global``: the path has a global route header, which RoCE always has.
        """

    def route(self, path: ads) -> Route:
        """Return the route along a path."""

    def describe_address(self, address: int) -> int | str:
        """Return an address as text, or as a LID."""


class PortTables(Protocol):
    """GIDs and P_Keys of the port."""

    def gid(self, index: int) -> bytes:
        """Return a GID table entry, 16 bytes."""

    def pkey(self, index: int) -> int:
        """Return a P_Key table entry, 0 if empty."""


class AddressVectors(PortTables, Protocol):
    """Destinations in send WQEs: datagrams and DC."""

    def vector(self, raw: bytes) -> Destination:
        """Return an address vector (48 bytes, device.h: mlx5_av; the second half may be zeros)."""

    def address_to(self, to: Destination) -> int:
        """Return the address that an address vector leads to."""

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> Origin:
        """Return the sender's fields in the headers of a datagram sent from this port."""


class KeyViolations(PortTables, Protocol):
    """Keys of received packets."""

    def violated_pkey(self) -> None:
        """Count a packet with a P_Key that does not match (PortInfo.P_KeyViolations).

        RoCE has no such counter and does nothing.
        """

    def violated_qkey(self) -> None:
        """Count a datagram with a wrong Q_Key (PortInfo.Q_KeyViolations)."""


class DatagramKeys(KeyViolations, Protocol):
    """Keys of received datagrams."""

    def has_match(self, pkey: int) -> bool:
        """Return whether a P_Key matches any entry of the table, as QP1 requires (IBTA 10.9.8)."""


class PacketReceiver(KeyViolations, Protocol):
    """Received packets of connections."""

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """Return the packet in a frame, and the offset of its base transport header.

        Its payload is a view of ``frame``. Raises BadPacketError for malformed headers, and on RoCE
        for a wrong invariant CRC.
        """

    def seal(self, frame: bytearray) -> None:
        """Update the invariant CRC of a changed packet in place; do nothing on InfiniBand."""

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """Return the reason that a packet does not belong to a path, in fixed words, or "".

        ``peer`` is the address at the end of the path, ``route`` its :meth:`global_route`. The
        caller drops the packet and counts the reason.
        """

    @property
    def congestion(self) -> Congestion | None:
        """Congestion control; None on a link layer without it."""


class DatagramReceiver(Protocol):
    """Received datagrams."""

    @property
    def has_link(self) -> bool:
        """Whether subnet management packets pass even while the port is not up (IBTA 7.2.7).

        Always False on Ethernet.
        """

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """Return the reason that a packet with these GIDs is not for the port, or "".

        The reason is in fixed words. For services without a path that fixes the GIDs. RoCE always
        returns "", as the steering has already filtered by address.
        """

    def has_sent(self, origin: Origin) -> bool:
        """Return whether a received datagram was sent from this port."""

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """Return the link layer data that a receive WQE gets with a datagram.

        The values are the GRH_BYTES in front of the payload (zeros without a GRH), then
        cqe64.flags_rqpn without the QPN. The last one is the TCI of a VLAN tag, None without one.
        """


class PacketCounts(Protocol):
    """Counters of the port; octets run from the first header on."""

    dropped: Counter[str]
    """Number of dropped packets by error, in fixed words."""

    def count_sent(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count sent packets, and all their octets from the first header on.

        ``marks`` is the path's :meth:`marks`, on ports that count by priority.
        """

    def count_received(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets."""

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """See :class:`emu.device.objects.queues.direct_path.ExchangeCounts`."""

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """See :class:`emu.device.objects.queues.direct_path.ExchangeCounts`."""

    def count_later(self, path: Uncounted) -> None:
        """See :class:`emu.device.objects.queues.direct_path.ExchangeCounts`."""

    def count_looped(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets that this port itself has sent.

        The packets did not use the physical port, except multicast packets, which used it when
        sent.
        """


class Link(
    LinkState,
    PathChecks,
    Paths,
    AddressVectors,
    DatagramKeys,
    PacketReceiver,
    DatagramReceiver,
    PacketCounts,
    Protocol,
):
    """The access of a function's transport services to their peers: all of these views."""
