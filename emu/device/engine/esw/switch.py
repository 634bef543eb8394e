"""The switch of an adapter whose manager can steer frames by an FDB.

Without an FDB the manager's vPort is connected directly to the uplink, as with the plain switch.
RoCE messages then go straight to functions of this process. With an FDB every frame passes the
tables, and the functions of the adapter can be reached through them only.

Source: PRM "E-Switch"; core/eswitch_offloads.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from emu.device.adapter.adapter import MANAGER
from emu.device.adapter.switch import Deliver, lose
from emu.device.engine.esw.fdb_pipeline import forward
from emu.device.engine.esw.uplinks import leaves_by
from emu.device.engine.eth.receive import loop_back
from emu.device.engine.eth.steering.packet_context import counts_of
from emu.device.port.eth.flow_control import is_control
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import UPLINK
from emu.device.port.eth.traffic import GROUP_BIT, Direction
from emu.device.port.eth.wire import EthWire, EthWireWrapper
from emu.device.rounds.costs import STEPS_PER_FRAME
from emu.device.state.points import FaultPoint

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.objects.eth.flow.action import VportTarget
    from emu.device.ports import CarryTrain
    from emu.device.state.hca import Hca


FDB_POINT: FaultPoint[[int, Frame], bool] = FaultPoint("fdb")


class EmbeddedSwitch:
    """Implements :class:`emu.device.adapter.adapter.Switch`."""

    def __init__(self, uplink: EthWire[Hca], deliver: Deliver[Hca]) -> None:
        self.uplink = uplink
        self._deliver = deliver
        self._manager: Vhca[Hca] | None = None
        self._segments: dict[int, _Segment] = {}
        self.changes = 0
        """Grows when the tables start or stop deciding."""
        self._cable = PortTraffic()
        """Uplink traffic while the tables decide."""
        self._alone = PortTraffic()
        """Uplink traffic without tables, up to the last time when they started to decide."""
        self._since = PortTraffic()
        """Traffic of the manager's vPort when the tables last stopped deciding."""
        self.decides = False
        """Whether an FDB has a root table."""
        self._is_steering = False
        """Whether a frame passes the tables now: frames that return meanwhile wait for a round, as
        two switches may return a frame to each other for ever.
        """
        self.forward: Callable[[Hca, Frame], None] = uplink.transmit
        self.receive: Callable[[Frame], None] = lose
        self._connect()

    def _connect(self) -> None:
        """Connect the manager directly to the uplink while nothing decides about its frames.

        Without tables the uplink's frames are the manager's. Without other functions all frames
        come from the manager, and go to the uplink.
        """
        node = self._manager.node if self._manager is not None else None
        if self.decides:
            self.forward, self.receive = self._forward, self._receive
            return
        is_alone = self._segments.keys() <= {MANAGER}
        self.forward = self.uplink.transmit if is_alone else self._forward
        self.receive = partial(self._deliver, node) if node is not None else lose

    def segment_of(self, vhca: Vhca[Hca]) -> EthWire[Hca]:
        """Return the wire that a function sees: one for each vPort until ``detach``."""
        number = vhca.vport_number
        if number not in self._segments:
            self._segments[number] = _Segment(self, vhca)
            self._connect()
        return self._segments[number]

    def attach(self, vhca: Vhca[Hca]) -> None:
        """Register a function's new state after its creation or reset.

        A manager starts without tables, joins the uplink, and the uplink's traffic counts from 0
        again.
        """
        self.changes += 1
        if vhca.vport_number == MANAGER:
            node = vhca.node
            assert node is not None
            self._manager = vhca
            self.decides = False
            self._cable, self._alone, self._since = PortTraffic(), PortTraffic(), PortTraffic()
            self.uplink.attach(node)
            self._connect()

    def detach(self, vhca: Vhca[Hca]) -> None:
        """Remove a function from the switch."""
        self.changes += 1
        self._segments.pop(vhca.vport_number, None)
        self._connect()

    def vport_changed(self, node: Hca) -> None:
        """Notify the uplink, which ignores functions that are not attached to it."""
        self.changes += 1
        self.uplink.port_changed(node)

    def tables_changed(self) -> None:
        """Make the functions determine anew which peers they reach without tables.

        If the tables have started or stopped deciding, settle whose traffic is the uplink's: the
        manager vPort's, or that of the tables.
        """
        self.changes += 1
        decides = self._fdb_manager() is not None
        if decides == self.decides:
            return
        if self.decides:
            self._since = self._of_manager()
        else:
            self._alone = self._alone + self._of_manager().without(self._since)
        self.decides = decides
        self._connect()

    def _of_manager(self) -> PortTraffic:
        """Return the manager vPort's traffic without looped frames; zeros without a manager."""
        vport = self._manager.nic_vport if self._manager is not None else None
        return PortTraffic(*vport.port_traffic()) if vport is not None else PortTraffic()

    def _fdb_manager(self) -> Hca | None:
        """Return the manager if an FDB has a root table, else None."""
        node = self._manager.node if self._manager is not None else None
        eswitch = node.eswitch if node is not None else None
        if eswitch is None or (eswitch.fdb.root is None and eswitch.foreign_root is None):
            return None
        return node

    def is_decided(self, source: Hca) -> bool:
        """Return whether tables decide where a function's own frames go.

        True for the manager only: its frames include those of representors.
        """
        return source.vhca.vport_number == MANAGER and self.decides

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the uplink's traffic, sent and received, since the manager's last reset.

        For a time without tables this is the traffic of the manager's vPort, without looped frames.
        """
        traffic = self._cable + self._alone
        if not self.decides:
            traffic = traffic + self._of_manager().without(self._since)
        return traffic.sent, traffic.received

    def _forward(self, source: Hca, frame: Frame) -> None:
        """Forward a frame that a function's vPort sends: through the tables, if they decide.

        The tables steer it now or in a later round; a full backlog drops it. Without tables only
        the manager's frames reach the uplink; frames of other vPorts are dropped.
        """
        number = source.vhca.vport_number
        manager = self._manager.node if self._manager is not None else None
        if self.decides and manager is not None:
            self._enter(manager, number, frame)
        elif number == MANAGER:
            self.uplink.transmit(source, frame)

    def _receive(self, frame: Frame) -> None:
        """Steer a frame from the uplink by the tables, now or in a later round.

        A frame is dropped while the port is down, and without a manager. A pause frame changes only
        the port's flow control. Any other frame is counted; a full backlog counts discards.
        """
        manager = self._manager.node if self._manager is not None else None
        if manager is None or not manager.eth.is_up:
            return
        if is_control(frame.data):  # for the port, not for a vPort
            port = manager.eth
            port.flow.receive_control(frame.data, manager.clock.now_ns(), port.speed)
            return
        _count(self._cable.received, frame)
        if not self._enter(manager, UPLINK, frame):
            self._cable.received.discards += counts_of(frame)[0]

    def _enter(self, manager: Hca, source_port: int, frame: Frame) -> bool:
        """Steer a frame now or in a later round; return False if the backlog is full."""
        backlog = manager.backlogs.esw
        if not self._is_steering:
            return backlog.do(len(frame.data), self._steer, manager, source_port, frame)
        manager.budget.charge(STEPS_PER_FRAME)  # tables have sent it, which charge less
        return backlog.keep(len(frame.data), self._steer, manager, source_port, frame)

    def _steer(self, manager: Hca, source_port: int, frame: Frame) -> None:
        """Send a frame through the FDB, unless the tables were removed or a fault plan takes it.

        Work beyond the round's budget continues from the backlog. An exception fails the manager,
        as by ``state.containment.contain``.
        """
        if not self.decides:
            return  # the tables were removed while the frame waited
        if manager.health.has_failed:
            return
        self._is_steering = True
        try:
            faults = manager.probes.faults
            if faults is not None and not faults.show(FDB_POINT, source_port, frame):
                return
            give = partial(self._deliver_result, manager, source_port, frame)
            others = forward(manager, source_port, frame, give)
            if others is not None:
                manager.backlogs.esw.begin(others, len(frame.data))
        except Exception:
            manager.health.fail()
        finally:
            self._is_steering = False

    def _deliver_result(
        self, manager: Hca, source_port: int, frame: Frame, target: VportTarget, what: Frame
    ) -> None:
        """Deliver ``what``, the changed ``frame``, to a vPort or the uplink of any switch.

        A frame for the sender's own vPort is dropped, because a sender loops its frames back
        itself; only the manager's frames are looped back here. A frame of the uplink returns to it
        only by entries that permit it: broadcasts of legacy mode lead to all vPorts and to the
        uplink (core/eswitch.c: esw_add_mc_addr). A vPort without a function drops the frame.
        """
        adapter = manager.vhca.adapter
        number, port = target.number, target.port
        if number == UPLINK:
            port = leaves_by(manager.budget, manager.adapter, source_port, port, frame, what)
            if source_port == UPLINK and port == adapter.number and not target.may_return:
                return
        if port != adapter.number:
            adapter.board.adapters[port - 1].switch.give(number, what)
        elif number == UPLINK:
            self._leave(manager, what)
        elif number != source_port:
            vhca = adapter.by_vport(number)
            if vhca is not None and vhca.node is not None:
                self._deliver(vhca.node, what)
        elif number == MANAGER:
            _loop_back(manager, frame.sqn, what)

    def give(self, number: int, frame: Frame) -> None:
        """Deliver a frame that has passed another switch's tables to a vPort or the uplink.

        A vPort without a function, and a switch without a manager, drop the frame.
        """
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
            manager.eth.flow.sent.control += is_control(frame.data)
            _count(self._cable.sent, frame)
            self.uplink.transmit(manager, frame)


def _loop_back(manager: Hca, sqn: int, frame: Frame) -> None:
    """Loop a frame back to the manager, whose tables lead it to the manager's own vPort.

    ``sqn`` is the sending queue's number. Drop the frame without such a queue, for a hairpin's
    queue, and while disable_uc_local_lb or disable_mc_local_lb suppresses the loopback.
    """
    sq, vport = manager.sqs.get(sqn), manager.nic_vport
    if sq is None or sq.source is None:
        return
    is_multicast = frame.data[0] & GROUP_BIT
    if vport.disable_mc_local_lb if is_multicast else vport.disable_uc_local_lb:
        return
    loop_back(manager, frame, sq.source)
    if not is_multicast:
        _count(vport.looped_out, frame)


@dataclass(slots=True)
class PortTraffic:
    """Traffic of a port in both directions."""

    sent: Direction = field(default_factory=Direction)
    received: Direction = field(default_factory=Direction)

    def __add__(self, other: PortTraffic) -> PortTraffic:
        """Return the traffic of two periods."""
        return PortTraffic(self.sent + other.sent, self.received + other.received)

    def without(self, before: PortTraffic) -> PortTraffic:
        """Return the traffic since ``before``."""
        return PortTraffic(self.sent.without(before.sent), self.received.without(before.received))


def _count(direction: Direction, frame: Frame) -> None:
    """Count a frame for its packets and their bytes; incomplete headers count as one packet."""
    direction.add(frame.data, *counts_of(frame))


class _Segment(EthWireWrapper["Hca"]):
    """The wire that one function behind the switch sees; only the uplink can be congested."""

    def __init__(self, switch: EmbeddedSwitch, vhca: Vhca[Hca]) -> None:
        super().__init__(switch.uplink)
        self._switch = switch
        self._vhca = vhca

    @property
    def changes(self) -> int:
        """Grows when the set of reachable functions may change."""
        return self._switch.changes + self.inner.changes

    @property
    def wants_packets(self) -> bool:
        """Whether messages must be sent as frames because tables decide about them."""
        return self._switch.decides or self.inner.wants_packets

    def nodes(self) -> Iterable[Hca]:
        """Return the functions that are reachable without tables, the function itself included.

        For a manager without tables these are the uplink's nodes, otherwise only the function.
        """
        if self._vhca.vport_number == MANAGER and not self._switch.decides:
            return self.inner.nodes()
        return [self._vhca.node] if self._vhca.node is not None else []

    def attach(self, node: Hca, /) -> None:
        """Do nothing: the switch itself is notified."""

    def port_changed(self, node: Hca, /) -> None:
        """Do nothing: the switch itself is notified."""

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """Return the uplink's train path if the function owns the uplink alone, else None."""
        if self._vhca.vport_number != MANAGER or self._switch.decides:
            return None
        return self.inner.train_to(mac)

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Send a frame through the switch."""
        self._switch.forward(source, frame)
