"""The fault points of packets: a wrapper of the wire that can drop, repeat and reorder them.

While a rule is about packets, messages to a function of the same process are sent as packets, so
that the rule can act on them. Datagrams pass only ``pkt.tx``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol

from pydantic import Field as Bounds

from emu.device.engine.rc.headers import objection
from emu.device.engine.rc.packets.connection import PKT_RX_POINT, connection_of, take
from emu.device.faults.delivery_actions import Delayable, Losable, Reorderable, Repeatable
from emu.device.faults.event import EventField, FaultPacket, Result, RuleInjector
from emu.device.faults.parameters import AT, of_bits, of_hex_digits, set_of
from emu.device.faults.registry import Parameter, action, mount, point
from emu.device.faults.rule import Rule
from emu.device.port.eth.roce import datagram as roce_datagram
from emu.device.port.eth.roce.datagram import RoceOrigin
from emu.device.port.eth.roce.gids import NO_GID
from emu.device.port.ib import datagram_packets
from emu.device.port.ib.wire import IbWire
from emu.device.port.packet import BadPacketError, Packet
from emu.device.ports import WireWrapper
from emu.device.state.points import FaultPoint
from layouts.wire.bth import PacketKind, Service
from layouts.wire.packet_ops import RESPONSES

if TYPE_CHECKING:
    from emu.device.port.datagram import Datagram, Origin
    from emu.device.state.hca import Hca

_DEFAULT_RNR_TIMER = 12
_PSN_AT = 9
"""Offset of the 24-bit PSN in a base transport header."""

_FIELDS = (
    EventField("kind", PacketKind, is_recorded=True),
    EventField("service", Service, is_recorded=True),
    EventField("qpn", int), EventField("psn", int), EventField("dlid", int),
    EventField("slid", int), EventField("length", int),
)  # fmt: skip
_PAYLOAD_AND_PSN = set_of(payload=of_hex_digits, psn=of_bits(24))
_CORRUPT = "payload, from its offset `at` on, and psn are set to the values in set"
_TIMER = Parameter("timer", Annotated[int, Bounds(strict=True, ge=0, le=31)])


class PacketFields(NamedTuple):
    """The fields of a packet that rules match."""

    kind: PacketKind
    service: Service
    qpn: int
    psn: int
    dlid: int
    slid: int
    length: int


class Outgoing(Protocol):
    """A packet or a datagram that is about to be sent."""

    @property
    def headers(self) -> PacketFields:
        """Fields that rules match."""

    @property
    def carried(self) -> object:
        """Object that was last sent; None before."""

    def frame_bytes(self) -> bytes:
        """Return its bytes on the wire; empty if there are none."""

    def send(self) -> object:
        """Send it on the wire."""

    def keep(self) -> None:
        """Copy its bytes, because the guest's memory may change before it is sent."""

    def change(self, values: Mapping[str, Any], at: int) -> None:
        """Overwrite ``payload`` from its offset ``at`` on, and ``psn``, if they are given."""


PKT_TX_POINT: FaultPoint[[Outgoing], object] = FaultPoint("pkt.tx")


class _OfPacket(Losable[Result], Delayable[Result], Repeatable[Result], Reorderable[Result]):
    __slots__ = ("dlid", "kind", "length", "psn", "qpn", "service", "slid")

    def __init__(self, faults: RuleInjector, headers: PacketFields) -> None:
        super().__init__(faults)
        (
            self.kind, self.service, self.qpn, self.psn, self.dlid, self.slid, self.length,
        ) = headers  # fmt: skip


@point(
    PKT_TX_POINT,
    "a packet is sent; while a rule is about packets, messages within a process become packets",
    *_FIELDS, is_of_packets=True,
)  # fmt: skip
class PacketLeaves(_OfPacket[object]):
    """A packet or a datagram; its result is whether the wire has capacity for more."""

    __slots__ = ("_outgoing",)
    instead = True
    is_sent: ClassVar[bool] = True

    def __init__(self, faults: RuleInjector, outgoing: Outgoing) -> None:
        super().__init__(faults, outgoing.headers)
        self._outgoing = outgoing

    @property
    def packet(self) -> FaultPacket:
        """The packet or datagram."""
        return self

    @property
    def carried(self) -> object:
        """Bytes or datagram that was last sent; None before."""
        return self._outgoing.carried

    def frame_bytes(self) -> bytes:
        """Return its bytes on the wire; empty for a RoCE datagram without GIDs."""
        return self._outgoing.frame_bytes()

    def go_on(self) -> object:
        """Send it on the wire."""
        return self._outgoing.send()

    def keep(self) -> None:
        """Copy the data that refer to guest memory."""
        self._outgoing.keep()

    @action(_CORRUPT, needs=[_PAYLOAD_AND_PSN], takes=[AT])
    def corrupt(self, rule: Rule) -> object:
        """Overwrite payload and PSN of a copy and send it; return whether the wire takes more."""
        self._outgoing.keep()
        self._outgoing.change(rule["set"], rule["at"] or 0)
        return self.go_on()


@point(PKT_RX_POINT, "a packet of a connected service arrives", *_FIELDS, is_of_packets=True)
class PacketArrives(_OfPacket[None]):
    """A packet of a connected service."""

    __slots__ = ("_octets", "_packet")
    is_sent: ClassVar[bool] = False

    def __init__(self, faults: RuleInjector, packet: Packet, length: int) -> None:
        super().__init__(faults, _headers(packet, length))
        self._packet = packet
        self._octets = length

    @property
    def packet(self) -> FaultPacket:
        """The packet."""
        return self

    @property
    def carried(self) -> object:
        """Buffer that the payload is a view of: the frame that arrived, before ``keep``."""
        return self._packet.payload.obj

    def frame_bytes(self) -> bytes:
        """Return nothing: the capture has the packet already."""
        return b""

    def go_on(self) -> None:
        """Process the packet, see :func:`emu.device.engine.rc.packets.connection.take`."""
        take(self.faults.hca, self._packet, self._octets)

    def keep(self) -> None:
        """Copy the payload, a view of the frame in which it arrived."""
        self._packet.payload = memoryview(bytearray(self._packet.payload))

    @action(_CORRUPT, needs=[_PAYLOAD_AND_PSN], takes=[AT])
    def corrupt(self, rule: Rule) -> None:
        """Overwrite payload and PSN of a copy and process it."""
        self.keep()
        _overwrite(self._packet.payload, rule["set"], rule["at"] or 0)
        self._packet.psn = rule["set"].get("psn", self._packet.psn)
        self.go_on()

    @action("a request is answered with an RNR NAK", takes=[_TIMER])
    def rnr(self, rule: Rule) -> None:
        """Answer an RC request by an RNR NAK with the rule's timer code (12 by default).

        Any other packet is dropped: a response, another service, and what the queue pair refuses,
        for instance in ERR.
        """
        hca, packet = self.faults.hca, self._packet
        qp = hca.qps.get(packet.qpn)
        is_request = packet.op.service is Service.RC and packet.op.kind not in RESPONSES
        if qp is None or not is_request or objection(hca.link, qp, packet):
            return
        timer = _DEFAULT_RNR_TIMER if rule["timer"] is None else rule["timer"]
        connection_of(hca, qp).responder.not_ready(packet, timer)


class _PacketBytes:
    """A packet as bytes, with its parsed headers."""

    def __init__(self, inner: IbWire[Hca], source: Hca, frame: bytes, sqn: int) -> None:
        """Parse the frame. Raises BadPacketError."""
        self._inner = inner
        self._sqn = sqn
        self._source = source
        self.carried: bytes | None = None
        """Bytes that were last sent."""
        self._frame = bytearray(frame)
        self._packet, self._bth_at = source.link.parse(self._frame)

    @property
    def headers(self) -> PacketFields:
        """Fields that rules match."""
        return _headers(self._packet, len(self._frame))

    def frame_bytes(self) -> bytes:
        """Return its bytes."""
        return bytes(self._frame)

    def send(self) -> bool:
        """Send it on the wire."""
        self.carried = frame = bytes(self._frame)
        return self._inner.transmit(self._source, frame, self._sqn)

    def keep(self) -> None:
        """Do nothing: the packet has bytes of its own."""

    def change(self, values: Mapping[str, Any], at: int) -> None:
        """Overwrite payload and PSN, if given, and update the invariant CRC; keep the length."""
        _overwrite(self._packet.payload, values, at)
        psn = values.get("psn")
        if psn is not None:
            psn_at = self._bth_at + _PSN_AT
            self._frame[psn_at : psn_at + 3] = psn.to_bytes(3, "big")
        self._source.link.seal(self._frame)


class _OutgoingDatagram:
    """An unreliable datagram, whose PSN is ignored."""

    def __init__(self, inner: IbWire[Hca], source: Hca, packet: Datagram, origin: Origin) -> None:
        self._inner = inner
        self._source = source
        self._packet = packet
        self._origin = origin
        self.carried: Datagram | None = None
        """Datagram that was last sent."""

    def frame_bytes(self) -> bytes:
        """Return the packet that carries it; empty for a RoCE datagram without GIDs."""
        packet, origin = self._packet, self._origin
        if not isinstance(origin, RoceOrigin):
            return datagram_packets.frame_of(packet, origin)
        if NO_GID in (origin.gid, packet.to.gid or NO_GID):
            return b""
        return roce_datagram.frame_of(packet, origin)

    @property
    def headers(self) -> PacketFields:
        """Fields that rules match: a SEND of UD with PSN 0, the source's LID and the target's."""
        packet = self._packet
        return PacketFields(
            PacketKind.SEND, Service.UD, packet.to.qpn, 0, packet.to.lid, self._origin.lid,
            packet.octets,
        )  # fmt: skip

    def send(self) -> bool:
        """Send it and return True: the wire always accepts a datagram."""
        self.carried = self._packet
        self._inner.datagram(self._source, self._packet, self._origin)
        return True

    def keep(self) -> None:
        """Copy its data."""
        data = memoryview(bytearray(b"".join(self._packet.data)))
        self._packet = replace(self._packet, data=(data,))

    def change(self, values: Mapping[str, Any], at: int) -> None:
        """Overwrite its payload."""
        _overwrite(self._packet.data[0], values, at)


class ShownWire(WireWrapper["Hca"]):
    """Implements :class:`IbWire` over another one, and shows sent packets to the rules."""

    inner: IbWire[Hca]

    def __init__(self, faults: RuleInjector, inner: IbWire[Hca]) -> None:
        super().__init__(inner)
        self._faults = faults

    def needs_packets(self, lid: int, node: Hca | None, /) -> bool:
        """Return whether the wrapped wire knows the peer, in this process or another.

        True also for peers of this process, so that all messages become packets.
        """
        return node is not None or self.inner.needs_packets(lid, None)

    def train_to(self, source: Hca, address: int, mtu: int, /) -> None:
        """Return None, because the rules are shown each packet."""
        return None

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0, /) -> bool:
        """Show a packet to the rules, then carry it; return False when the path is congested.

        Rules may drop or change the packet. A frame that cannot be parsed is carried without rules.
        """
        try:
            outgoing = _PacketBytes(self.inner, source, frame, sqn)
        except BadPacketError:
            return self.inner.transmit(source, frame, sqn)
        return bool(self._faults.show(PKT_TX_POINT, outgoing))

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Show a datagram to the rules; carry it unless one drops or changes it."""
        self._faults.show(PKT_TX_POINT, _OutgoingDatagram(self.inner, source, packet, origin))


@mount(PKT_TX_POINT, PKT_RX_POINT)
def show_packets(faults: RuleInjector, *, requested: bool) -> None:
    """Wrap the HCA's wire to show each packet to the rules, or unwrap it."""
    own = faults.function.wire
    faults.hca.wire = ShownWire(faults, own) if requested else own


def _headers(packet: Packet, length: int) -> PacketFields:
    return PacketFields(
        packet.op.kind, packet.op.service, packet.qpn, packet.psn, packet.dlid, packet.slid, length
    )


def _overwrite(payload: memoryview, values: Mapping[str, Any], at: int) -> None:
    """Overwrite a payload from ``at`` on by ``values``' hexadecimal ``payload``, if given.

    Bytes beyond its end are ignored.
    """
    there = payload[at:]
    new = bytes.fromhex(values.get("payload", ""))[: len(there)]
    there[: len(new)] = new
