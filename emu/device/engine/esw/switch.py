"""Implements the switch of an adapter whose manager decides by tables where frames go.

As long as the manager has no forwarding database (FDB), its vPort has the cable to itself, as with
the plain switch: messages of RoCE may go straight to functions of the process. With one every frame
passes the tables, and nobody reaches a function of the adapter in any other way.

Source: PRM "E-Switch"; core/eswitch_offloads.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from emu.device.adapter.adapter import MANAGER
from emu.device.adapter.switch import Deliver
from emu.device.engine.esw.fdb_pipeline import forward
from emu.device.engine.esw.uplinks import leaves_by
from emu.device.engine.eth.steering.packet_context import stands_for
from emu.device.port.eth.flow_control import FlowControl, is_control
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import UPLINK, FrameError
from emu.device.port.eth.traffic import Direction
from emu.device.port.eth.wire import EthWire
from emu.device.state.containment import contain
from emu.device.state.points import FaultPoint

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.objects.eth.flow import VportTarget
    from emu.device.ports import CarryTrain
    from emu.device.state.hca import Hca

FDB_POINT: FaultPoint[[int, Frame], bool] = FaultPoint("fdb")


class EmbeddedSwitch:
    """Implements :class:`emu.device.adapter.switch.Switch`."""

    def __init__(self, uplink: EthWire[Hca], deliver: Deliver[Hca]) -> None:
        self.uplink = uplink
        self._deliver = deliver
        self._manager: Vhca[Hca] | None = None
        self._segments: dict[int, _Segment] = {}
        self.changes = 0
        """Grows when the tables begin or cease to decide."""
        self._cable = PortTraffic()
        """What has passed the cable while tables decided."""
        self._alone = PortTraffic()
        """What has passed it while they did not, up to the last time when they began to."""
        self._since = PortTraffic()
        """What had passed the manager's vPort when they last ceased to."""
        self._did_decide = False

    def segment_of(self, vhca: Vhca[Hca]) -> EthWire[Hca]:
        """The wire as a function sees it."""
        number = vhca.vport_number
        if number not in self._segments:
            self._segments[number] = _Segment(self, vhca)
        return self._segments[number]

    def attach(self, vhca: Vhca[Hca]) -> None:
        """The manager's new state has no tables yet, and is plugged into the cable."""
        self.changes += 1
        if vhca.vport_number == MANAGER:
            node = vhca.node
            assert node is not None
            self._manager = vhca
            self._did_decide = False
            self._cable, self._alone, self._since = PortTraffic(), PortTraffic(), PortTraffic()
            self.uplink.attach(node)

    def detach(self, vhca: Vhca[Hca]) -> None:
        """Nobody reaches it any more."""
        self.changes += 1
        self._segments.pop(vhca.vport_number, None)

    def vport_changed(self, node: Hca) -> None:
        """Tell the cable, which knows whether it is about the function that is plugged in."""
        self.changes += 1
        self.uplink.port_changed(node)

    def tables_changed(self) -> None:
        """The functions have to look anew who can be reached without them."""
        self.changes += 1
        if self.decides == self._did_decide:
            return
        if self._did_decide:
            self._since = self._of_manager()
        else:
            self._alone = self._alone + self._of_manager().without(self._since)
        self._did_decide = not self._did_decide

    def _of_manager(self) -> PortTraffic:
        """What has passed the manager's vPort, without what came back to the function."""
        vport = self._manager.nic_vport if self._manager is not None else None
        return PortTraffic(*vport.passed()) if vport is not None else PortTraffic()

    @property
    def decides(self) -> bool:
        """Whether there is an FDB."""
        return self._fdb_manager() is not None

    def _fdb_manager(self) -> Hca | None:
        """The manager, if there is an FDB."""
        node = self._manager.node if self._manager is not None else None
        eswitch = node.eswitch if node is not None else None
        if eswitch is None or (eswitch.fdb.root is None and eswitch.foreign_root is None):
            return None
        return node

    def is_decided(self, source: Hca) -> bool:
        """The manager's frames are also those of representors, whose tables say where they go."""
        return source.vhca.vport_number == MANAGER and self.decides

    def passed(self) -> tuple[Direction, Direction]:
        """What has passed the cable since the manager's last reset.

        As long as the manager has it to itself, that is what has passed its vPort.
        """
        traffic = self._cable + self._alone
        if not self._did_decide:
            traffic = traffic + self._of_manager().without(self._since)
        return traffic.sent, traffic.received

    def forward(self, source: Hca, frame: Frame) -> None:
        """Carry a frame of a function's vPort."""
        number = source.vhca.vport_number
        manager = self._fdb_manager()
        if manager is not None:
            self._cross(manager, number, frame)
        elif number == MANAGER:
            self.uplink.transmit(source, frame)

    def receive(self, frame: Frame) -> None:
        """Take a frame that has come by the cable."""
        manager = self._manager.node if self._manager is not None else None
        if manager is None:
            return
        if not self.decides:
            self._deliver(manager, frame)
        elif manager.eth.is_up:
            if is_control(frame.data):  # it is for the port, not for a vPort
                port = manager.eth
                port.flow.take(frame.data, manager.clock.now_ns(), port.speed)
                return
            _count(self._cable.received, frame)
            self._cross(manager, UPLINK, frame)

    def _cross(self, manager: Hca, source_port: int, frame: Frame) -> None:
        """Let the tables decide, now or in a later round. A bug there stops the manager."""
        line = manager.esw_backlog
        if not line.do(len(frame.data), self._contained, manager, source_port, frame):
            self._cable.received.discards += source_port == UPLINK

    def _contained(self, manager: Hca, source_port: int, frame: Frame) -> None:
        contain(manager, partial(self._pass, manager, source_port, frame))

    def _pass(self, manager: Hca, source_port: int, frame: Frame) -> None:
        if self._fdb_manager() is not manager:
            return  # the tables have gone while it waited
        faults = manager.faults
        if faults is not None and not faults.show(FDB_POINT, source_port, frame):
            return
        give = partial(self._arrives, manager, source_port, frame)
        others = forward(manager, source_port, frame, give)
        if others is not None:
            manager.esw_backlog.begin(others, len(frame.data))

    def _arrives(
        self, manager: Hca, source_port: int, frame: Frame, target: VportTarget, what: Frame
    ) -> None:
        """A vPort gets ``what`` has become of a frame."""
        adapter = manager.adapter
        number, port = target.number, target.port
        if number == UPLINK:
            port = leaves_by(manager, source_port, port, frame, what)
        if port != adapter.number:
            adapter.board.adapters[port - 1].switch.give(number, what)
        elif number == UPLINK:
            self._leave(manager, what)
        elif number != source_port:  # its sender has taken it itself if it is for the sender
            vhca = adapter.by_vport(number)
            if vhca is not None and vhca.node is not None:
                self._deliver(vhca.node, what)

    def give(self, number: int, frame: Frame) -> None:
        """A vPort gets a frame that has passed tables."""
        manager = self._manager.node if self._manager is not None else None
        if manager is None:
            return
        if number == UPLINK:
            self._leave(manager, frame)
            return
        vhca = manager.adapter.by_vport(number)
        if vhca is not None and vhca.node is not None:
            self._deliver(vhca.node, frame)

    def _leave(self, manager: Hca, frame: Frame) -> None:
        if manager.eth.is_up:
            _count(self._cable.sent, frame)
            self.uplink.transmit(manager, frame)


@dataclass(slots=True)
class PortTraffic:
    """What has passed both ways."""

    sent: Direction = field(default_factory=Direction)
    received: Direction = field(default_factory=Direction)

    def __add__(self, other: PortTraffic) -> PortTraffic:
        """What has passed in two times."""
        return PortTraffic(self.sent + other.sent, self.received + other.received)

    def without(self, before: PortTraffic) -> PortTraffic:
        """What has passed since some time."""
        return PortTraffic(self.sent.without(before.sent), self.received.without(before.received))


def _count(direction: Direction, frame: Frame) -> None:
    try:
        packets, octets = stands_for(frame)
    except FrameError:
        packets, octets = 1, len(frame.data)
    direction.add(frame.data, packets, octets)


class _Segment(EthWire["Hca"]):
    """The wire as one function behind the switch sees it."""

    def __init__(self, switch: EmbeddedSwitch, vhca: Vhca[Hca]) -> None:
        self._switch = switch
        self._vhca = vhca

    @property
    def changes(self) -> int:
        """Grows with everything that may change who can be reached."""
        return self._switch.changes + self._switch.uplink.changes

    @property
    def wants_packets(self) -> bool:
        """Whether messages have to be frames, because tables decide about them."""
        return self._switch.decides or self._switch.uplink.wants_packets

    def nodes(self) -> Iterable[Hca]:
        """The function itself; with it those on the segment, if it has the cable to itself."""
        if self._vhca.vport_number == MANAGER and not self._switch.decides:
            return self._switch.uplink.nodes()
        return [self._vhca.node] if self._vhca.node is not None else []

    def attach(self, node: Hca, /) -> None:
        """The switch is told itself."""

    def port_changed(self, node: Hca, /) -> None:
        """As for ``attach``."""

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Only the cable can be congested."""
        return self._switch.uplink.is_pausing_to(mac)

    def when_room_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """As for ``is_pausing_to``."""
        self._switch.uplink.when_room_to(mac, callback)

    def spare_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Only a port at the other end of the cable asks functions to wait."""
        return self._switch.uplink.spare_to(mac, packets, flow, priority)

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """The cable's way, if the function has it to itself."""
        if self._vhca.vport_number != MANAGER or self._switch.decides:
            return None
        return self._switch.uplink.train_to(mac)

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Carry a frame through the switch."""
        self._switch.forward(source, frame)
