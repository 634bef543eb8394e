"""The state of one function between two resets: ports to the outside, capabilities, objects.

A reset creates a new ``Hca`` on the same ports. An ``Hca`` does no I/O and does nothing by itself:
firmware commands (``emu.cmdif``) and the engine (``emu.engine``) operate on it, and
``emu.engine.lifecycle`` stops it and gives its queues their turns.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from emu.device.caps import Caps
from emu.device.containment import ContainedClock
from emu.device.fwpages import FirmwarePages
from emu.device.held import HeldRoom
from emu.device.looks import SeldomLooks
from emu.device.points import FaultPoints
from emu.device.unhandled import Unhandled
from emu.errors import CmdError
from emu.objects import (
    Cq,
    Eq,
    FlowCounter,
    FlowDomain,
    FlowEntry,
    FlowGroup,
    FlowTable,
    Memic,
    MemicArea,
    Mkey,
    Pd,
    Psv,
    QCounter,
    Qp,
    Queue,
    ReservedQpn,
    Rq,
    Rqt,
    Sq,
    Srq,
    Tir,
    Tis,
    TransportDomain,
    Uar,
    Uctx,
    Umem,
    Xrcd,
)
from emu.objects.ledger import Ledger
from emu.objects.page_fault import PageFaultTable
from emu.objects.table import Caller, Numbers, Object, Remains, Table
from emu.port.base import NODE_DESCRIPTION_BYTES, Link, Port
from emu.port.eth.port import MAC_BYTES, EthPort, mac_of
from emu.port.eth.roce.gids import GidTable
from emu.port.eth.roce.link import RoceLink
from emu.port.eth.wire import EthWire, NoWire
from emu.port.ib.port import IbPort
from emu.port.ib.wire import IbWire
from emu.ports import Clock, GuestMemory, Interrupts
from layouts.enums import EventType, PortType, Status
from layouts.eth_enums import FlowTableType

if TYPE_CHECKING:
    from emu.device.tracer import DeviceTracer
    from emu.models import Model

log = logging.getLogger(__name__)

MSIX_VECTORS = 64

FIRST_UAR = 8
"""Pages 0 to 2 are the initialization segment, 2 and 3 the MSI-X table and its pending bits."""

FIRST_MKEY_INDEX = 0x100
"""Lower indices are the device's own keys (``emu.engine.mr.special_keys``).

Index 1 must stay unused, because key 0x100 is the end mark of a scatter list.
"""

MULTICAST = "multicast"
"""The ledger's account of queue pairs in multicast groups."""

FIRST_QPN = 0x40
"""Numbers 0 and 1 mean the SMI and the GSI on the wire."""


class HcaState(IntEnum):
    """How far the driver has brought the function up; each state allows more commands."""

    DISABLED = 0
    ENABLED = 1
    INITIALIZED = 2


@dataclass(frozen=True, slots=True)
class HcaOptions:
    """Options of a function besides its model."""

    guid: int
    lid: int = 1
    boot_pages: int = 0
    """Pages requested before INIT_HCA, and as many after it; 0 skips MANAGE_PAGES."""
    windows_2a: bool = False
    """Type 2 memory windows are of type 2A: access through one checks the QPN, not the PD."""
    mac: int = 0
    """MAC address of an Ethernet port; 0 derives it from the GUID."""


class Hca:
    """One mlx5 function."""

    def __init__(
        self,
        model: Model,
        options: HcaOptions,
        memory: GuestMemory,
        interrupts: Interrupts,
        clock: Clock,
        wire: IbWire[Hca],
        tracer: DeviceTracer | None = None,
        unhandled: Unhandled | None = None,
        on_failure: Callable[[], None] = lambda: None,
        remains: Remains | None = None,
        eth_wire: EthWire[Hca] | None = None,
    ) -> None:
        """``on_failure`` is called when the function fails because of a bug in the emulator.

        ``remains`` receives the objects that are dropped; they may outlive this Hca. ``eth_wire``
        is what an Ethernet port is plugged into.
        """
        self.model = model
        self.options = options
        self.memory = memory
        self.interrupts = interrupts
        self.clock: Clock = ContainedClock(clock, self)
        self.tracer = tracer
        self.faults: FaultPoints | None = None
        self.state = HcaState.DISABLED
        self.caps = Caps(model.capabilities)
        self._ib = _ib_port(model, options) if model.port_type is PortType.IB else None
        self._eth = _eth_port(model, options) if model.port_type is PortType.ETH else None
        self.gids = GidTable(self.caps.roce.roce_address_table_size)
        """The GID table of an Ethernet port."""
        self._roce = RoceLink(self._eth, self.gids) if self._eth is not None else None
        self.link: Link = self._ib or self.roce
        """By which transport services reach their peers."""
        self.wire: IbWire[Hca] = wire
        """What carries transport packets."""
        self.eth_wire: EthWire[Hca] = eth_wire or NoWire()
        """What carries the frames of an Ethernet port."""
        self.remains = remains if remains is not None else Remains()
        self.ledger = Ledger(model.host_bytes)
        """Host memory in use on behalf of the guest."""
        self.fwpages = FirmwarePages(options.boot_pages, self.ledger)
        self.issi = 0
        self.internal_errors = 0
        self.error_completions = 0
        """CQEs of failed requests, flushed ones included."""
        self.teardowns = 0
        """How many times all objects have been dropped at once."""
        self.has_failed = False
        """An unexpected exception has stopped it permanently (see ``emu.device.containment``)."""
        self._on_failure = on_failure
        self.caller = Caller()
        self.has_signatures = False
        """A key has or had block signatures, so its segments may be longer on the wire."""
        self.steps = 0
        """Work done in this round, as far as it is counted; see ``STEPS_PER_ROUND``."""
        self.kept_views = 0
        """Number of views that keys have cached since all views were last dropped."""
        self.keys_with_views: set[int] = set()
        """Indices of keys with cached views; may include keys that no longer exist."""
        self.unhandled = unhandled if unhandled is not None else Unhandled()
        self._event_eqs: dict[EventType, Eq] = {}
        self.seldom_looks = SeldomLooks(self.clock)
        """At queues in ERR that have had no new requests for a while."""
        self.ready: deque[Queue] = deque()
        """Queues that wait for a turn (``emu.engine.lifecycle.run``)."""
        self.broken_cqs: list[Cq] = []
        """CQs that have just failed, whose queues must be stopped."""
        self.stopping: Iterator[bool] | None = None
        """The queues that are being stopped for such CQs, as far as they are still to be looked at:
        for each one, whether it has been stopped."""
        self.held_room = HeldRoom(self.ledger)
        self.page_faults = PageFaultTable(self.ledger)
        """Page faults that wait for the driver."""
        self._make_tables()
        self.wire.attach(self)
        if self._eth is not None:
            self.eth_wire.attach(self)

    @property
    def port(self) -> Port:
        """The port, whatever its link layer."""
        return self._ib or self.eth

    @property
    def ib(self) -> IbPort:
        """The InfiniBand port. Raises BAD_OP_ERR when the function has none."""
        if self._ib is None:
            raise CmdError(Status.BAD_OP_ERR, "not an InfiniBand port")
        return self._ib

    @property
    def eth(self) -> EthPort:
        """The Ethernet port. Raises BAD_OP_ERR when the function has none."""
        if self._eth is None:
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self._eth

    @property
    def roce(self) -> RoceLink:
        """RoCE on the Ethernet port. Raises BAD_OP_ERR when the function has none."""
        if self._roce is None:
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self._roce

    def _make_tables(self) -> None:
        """Create empty tables with the limits that the driver has been told."""
        caps, on = self.caps.general, (self.ledger, self.caller)
        self.pds = Table[Pd]("pd", 1, 1 << caps.log_max_pd, *on)
        self.xrcds = Table[Xrcd]("xrcd", 1, 1 << caps.log_max_xrcd, *on)
        self.tds = Table[TransportDomain](
            "transport domain", 1, 1 << caps.log_max_transport_domain, *on
        )
        self.memics = Table[Memic]("device memory", 1, 1 << 16, *on)
        self.memic = MemicArea(self.model.bar0_size) if caps.device_memory else None
        """Memory at the end of BAR 0, on adapters that have it."""
        bar_end = self.memic.first if self.memic is not None else self.model.bar0_size
        self.uars = Table[Uar]("uar", FIRST_UAR, bar_end >> 12, *on)
        self.eqs = Table[Eq]("eq", 1, caps.max_num_eqs + 1, *on)
        self.cqs = Table[Cq]("cq", 1, 1 << caps.log_max_cq, *on)
        self.mkeys = Table[Mkey]("mkey", FIRST_MKEY_INDEX, 1 << caps.log_max_mkey, *on)
        self.queues = Numbers(FIRST_QPN, 1 << caps.log_max_qp)
        """Everything that a send doorbell can name; queue pairs share their numbers with others."""
        self.qps = Table[Qp]("qp", FIRST_QPN, 1 << caps.log_max_qp, *on, numbers=self.queues)
        self.sqs = Table[Sq]("sq", FIRST_QPN, 1 << caps.log_max_sq, *on, numbers=self.queues)
        self.reserved_qpns = Table[ReservedQpn](
            "reserved qpn", FIRST_QPN, 1 << caps.log_max_qp, *on, numbers=self.queues
        )
        self.rqs = Table[Rq]("rq", 1, 1 << caps.log_max_rq, *on)
        self.srqs = Table[Srq]("srq", 1, 1 << caps.log_max_srq, *on)
        self.counters = Table[QCounter]("counter set", 1, caps.max_qp_cnt + 1, *on)
        flow_counters = caps.max_flow_counter_31_16 << 16 | caps.max_flow_counter_15_0
        self.flow_counters = Table[FlowCounter]("flow counter", 1, flow_counters + 1, *on)
        self.tises = Table[Tis]("tis", 1, 1 << caps.log_max_tis, *on)
        self.rqts = Table[Rqt]("rqt", 1, 1 << caps.log_max_rqt, *on)
        self.tirs = Table[Tir]("tir", 1, 1 << caps.log_max_tir, *on)
        self._make_flow_tables()
        self.psvs = Table[Psv]("psv", 1, 1 << caps.log_max_mkey, *on)
        self.uctxs = Table[Uctx]("user context", 1, 1 << caps.log_max_uctx, *on)
        self.umems = Table[Umem]("umem", 1, 1 << caps.log_max_umem, *on)
        self.special_qps: dict[int, Qp] = {}
        """The queue pairs that receive as QP0 and QP1."""
        self.mcgs: dict[bytes, list[Qp]] = {}
        """Datagram queue pairs by the multicast GID that they are attached to."""

    def _make_flow_tables(self) -> None:
        """Nothing steers packets yet. Received packets can be steered, and RoCE's both ways."""
        caps, on = self.caps.flow_table, (self.ledger, self.caller)
        props = caps.flow_table_properties_nic_receive
        self.flow_tables = Table[FlowTable]("flow table", 1, 1 << props.log_max_ft_num, *on)
        self.flow_groups = Table[FlowGroup]("flow group", 1, 1 << props.log_max_flow, *on)
        self.flow_entries = Table[FlowEntry]("flow table entry", 1, 1 << props.log_max_flow, *on)
        self.rdma_rx, self.rdma_tx = FlowDomain(), FlowDomain()
        """The flow tables of RoCE packets, which never have a root without ``ft_support``."""
        found = (
            (FlowTableType.NIC_RX, props, FlowDomain()),
            (FlowTableType.RDMA_RX, caps.flow_table_properties_nic_receive_rdma, self.rdma_rx),
            (FlowTableType.RDMA_TX, caps.flow_table_properties_nic_transmit_rdma, self.rdma_tx),
        )
        self.flow_domains: dict[int, FlowDomain] = {
            kind: domain for kind, properties, domain in found if properties.ft_support
        }
        """By flow_table_type; the types with ``ft_support``."""

    @property
    def tables(self) -> tuple[Table[Object], ...]:
        """Every table, for summaries and leak checks."""
        return (
            self.pds, self.xrcds, self.tds, self.memics, self.uars, self.eqs, self.cqs,
            self.mkeys, self.qps, self.sqs, self.rqs, self.srqs, self.counters,
            self.flow_counters, self.psvs, self.uctxs, self.umems, self.tises, self.rqts,
            self.tirs, self.flow_tables, self.flow_groups, self.flow_entries, self.reserved_qpns,
        )  # type: ignore[return-value]  # fmt: skip

    def initialize(self) -> None:
        """INIT_HCA: the driver's capability choices take effect."""
        self._make_tables()
        self.state = HcaState.INITIALIZED

    def forget_views(self) -> None:
        """Drop the cached views of every key; never costs more than creating them did."""
        for index in self.keys_with_views:
            if (mkey := self.mkeys.get(index)) is not None:
                mkey.views.clear()
        self.keys_with_views.clear()
        self.kept_views = 0

    def drop_objects(self) -> None:
        """Forget all objects at once. The caller must have stopped all work on them before."""
        self.teardowns += 1
        self._event_eqs.clear()
        for flow_table in self.flow_tables:
            flow_table.groups.clear()
        for group in self.flow_groups:
            group.forget()
        for table in self.tables:
            self.remains.add(table.clear())
            self.ledger.close(table.kind)
        self.ledger.close(MULTICAST)
        self.caller.owned.clear()
        self.gids.clear()
        self._make_tables()

    def fail(self) -> None:
        """Stop permanently because of the exception that is being handled.

        No timer, packet or turn reaches a function that has failed.
        """
        if self.has_failed:
            return
        self.has_failed = True
        self.internal_errors += 1
        log.exception("%s: internal error: the function stops", self.model.name)
        self._on_failure()

    def subscribe(self, eq: Eq) -> None:
        """Send the asynchronous event types in the EQ's mask to it from now on."""
        for event in EventType:
            if event is not EventType.COMP and eq.events >> event & 1:
                self._event_eqs[event] = eq

    def unsubscribe(self, eq: Eq) -> None:
        """The EQ is going away."""
        self._event_eqs = {
            kind: owner for kind, owner in self._event_eqs.items() if owner is not eq
        }

    def event_eq(self, event: EventType) -> Eq | None:
        """The EQ that has subscribed to an asynchronous event type."""
        return self._event_eqs.get(event)

    def unschedule(self, queue: Queue) -> None:
        """Take back a turn that the queue waits for."""
        if queue.is_ready:
            queue.is_ready = False
            self.ready.remove(queue)

    def schedule(self, queue: Queue) -> None:
        """Give the queue a turn: it has work, or may have some."""
        if not queue.is_ready:
            queue.is_ready = True
            self.ready.append(queue)


def _ib_port(model: Model, options: HcaOptions) -> IbPort:
    return IbPort(
        options.guid,
        model.ib_link_width_oper,
        model.ib_proto_oper,
        device_id=model.identity.device_id,
        lid=options.lid,
        node_description=_described(model),
    )


def _eth_port(model: Model, options: HcaOptions) -> EthPort:
    mac = options.mac.to_bytes(MAC_BYTES, "big") if options.mac else mac_of(options.guid)
    return EthPort(options.guid, mac, model.eth_speed, node_description=_described(model))


def _described(model: Model) -> bytes:
    """The node description until the guest sets another one (rdma-ndd does)."""
    return f"{model.title}, mlx5emu".encode().ljust(NODE_DESCRIPTION_BYTES, b"\0")
