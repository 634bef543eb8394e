"""The state of one function between two resets: ports to the outside, capabilities, objects.

A reset creates a new ``Hca`` on the same ports. An ``Hca`` does no I/O and does nothing by itself:
firmware commands (``emu.device.cmdif``) and the engine (``emu.device.engine``) operate on it, and
``emu.device.engine.lifecycle`` stops it and polls its queues.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.adapter.lag_link import LagLink
from emu.device.errors import CmdError
from emu.device.objects.deferred_free import DeferredFree
from emu.device.objects.eth.pacing import Pacing, RateLimit
from emu.device.objects.ledger import Ledger
from emu.device.objects.memory.ring_page import RingPages
from emu.device.objects.pins import pins
from emu.device.objects.queues.copies import Copy
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.eq import Eq
from emu.device.objects.queues.page_fault import PageFaultTable
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.vector_moderation import VectorModeration
from emu.device.port.base import NODE_DESCRIPTION_BYTES, Link, Port, Vport
from emu.device.port.eth.link_partner import LinkPartner
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.roce.gids import GidTable
from emu.device.port.eth.roce.link import RoceLink
from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.port.eth.vport import NicVport, mac_of
from emu.device.port.eth.wire import EthWire
from emu.device.port.ib.port import DEFAULT_PKEY, IbPort
from emu.device.port.ib.wire import IbWire
from emu.device.ports import Clock, GuestMemory, Interrupts
from emu.device.rounds.backlog import Backlog
from emu.device.state.containment import ContainedClock, Lifetime, contain
from emu.device.state.error_queue_poller import ErrorQueuePoller
from emu.device.state.fwpages import FirmwarePages
from emu.device.state.held import HeldCapacity
from emu.device.state.points import FaultPoints
from emu.device.state.sessions import Sessions
from emu.device.state.sub_functions import SubFunction, SubFunctions
from emu.device.state.tables import ObjectTables
from emu.device.state.timer import free_running
from emu.device.state.unhandled import Unhandled
from layouts.enums import EventType, PortType, Status

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.state.tracer import DeviceTracer

log = logging.getLogger(__name__)

MSIX_VECTORS: Final = 64
ARRIVALS: Final = "arrivals"
"""Ledger account of ``Hca.rx_backlog``."""
CROSSING: Final = "crossing"
"""Ledger account of ``Hca.esw_backlog``."""
EGRESS: Final = "egress"
"""Ledger account of ``Hca.egress``."""
SNIFFED: Final = "sniffed"
"""Ledger account of ``Hca.sniffed``."""


class HcaState(IntEnum):
    """Stage of the function's initialization by the driver; each one allows more commands."""

    DISABLED = 0
    ENABLED = 1
    INITIALIZED = 2


@dataclass(frozen=True, slots=True)
class HcaOptions:
    """Options of a function in addition to its model."""

    guid: int
    lid: int = 1
    boot_pages: int = 0
    """Pages requested before INIT_HCA, and the same number after it; 0 skips MANAGE_PAGES."""
    windows_2a: bool = False
    """Whether type 2 memory windows are of type 2A: access through one checks the QPN, not the
    PD.
    """
    mac: int = 0
    """MAC address of an Ethernet port; 0 derives it from the GUID."""
    pkeys: tuple[int, ...] = ()
    """P_Keys of an InfiniBand port, after the default one."""


class Hca(ObjectTables):
    """One mlx5 function."""

    def __init__(
        self,
        model: Model,
        options: HcaOptions,
        memory: GuestMemory,
        interrupts: Interrupts,
        clock: Clock,
        wire: IbWire[Hca],
        vhca: Vhca[Hca],
        tracer: DeviceTracer | None = None,
        unhandled: Unhandled | None = None,
        on_failure: Callable[[], None] = lambda: None,
        deferred_free: DeferredFree | None = None,
        host: Ledger | None = None,
    ) -> None:
        """Create the function in its power-on state; ``vhca`` is its identity in its adapter.

        ``on_failure`` is called when the function fails because of a bug in the emulator.
        ``deferred_free`` receives the objects that a reset drops; they may outlive this Hca.
        ``host`` is the ledger of a sub-function's physical function.
        """
        super().__init__(model, vhca.number, host)
        self.vhca = vhca
        vhca.node = self
        if vhca.is_manager:
            for other in vhca.adapter.virtual_functions():
                other.forget_manager()
        for group, page in vhca.granted.items():
            self.caps.grant(group, page)
        self.options = options
        self.memory = memory
        self.interrupts = interrupts
        self.bare_clock = clock
        """The clock without containment of exceptions."""
        self.port_clock: Clock = ContainedClock(clock, self)
        """Clock of wires and fault rules, which outlive the objects."""
        self.lifetime = Lifetime(self)
        """Lifetime of the current objects."""
        self.clock: Clock = ContainedClock(clock, self.lifetime)
        """Clock of objects: none of their timers fires after they have been dropped."""
        self.sub_functions: SubFunctions | None = None
        """Sub-functions that the function manages; None if it can have none."""
        self.sub_function: SubFunction | None = None
        """The manager's record of this function, if it is a sub-function."""
        self.ticks = free_running(self.clock, model.general["device_frequency_khz"])
        """The free-running timer, which time-stamps CQEs (internal_timer)."""
        self.tracer = tracer
        self.faults: FaultPoints | None = None
        self.state = HcaState.DISABLED
        self._ib = _ib_port(model, options, vhca) if model.port_type is PortType.IB else None
        is_eth = model.port_type is PortType.ETH
        self._nic_vport = _nic_vport(model, options, vhca) if is_eth else None
        self.gids = GidTable(self.caps.roce.roce_address_table_size)
        """The GID table of an Ethernet port."""
        self._roce = _roce_link(self._nic_vport, self.gids, vhca)
        self.link: Link = self._ib or self.roce
        """Link of the transport services."""
        self.wire: IbWire[Hca] = wire
        """Carries transport packets."""
        self.switch = vhca.adapter.switch
        """Carries the frames of an Ethernet vPort."""
        self.segment = self.switch.segment_of(vhca)
        """Wire behind the switch, as the function sees it."""
        self.deferred_free = deferred_free if deferred_free is not None else DeferredFree()
        self.fwpages = FirmwarePages(options.boot_pages, self.ledger)
        self.vf_pages: dict[int, FirmwarePages] = {}
        """Pages that the driver of a physical function has given for virtual ones, by vPort."""
        self.issi = 0
        self.driver = ""
        """Version string of the driver (SET_DRIVER_VERSION); empty before that command."""
        self.internal_errors = 0
        self.error_completions = 0
        """Number of CQEs of failed requests, including flushed ones."""
        self.compressed_completions = 0
        """Number of packets whose CQEs share an entry with others."""
        self.cq_overruns = 0
        """Number of CQs that have overrun and take no more CQEs."""
        self.teardowns = 0
        """Number of times that all objects have been dropped at once."""
        self.has_failed = False
        """Whether an unexpected exception has stopped it permanently (see
        ``state.containment``).
        """
        self._on_failure = on_failure
        self.has_signatures = False
        """Whether a key has or had block signatures, so segments may be longer on the wire."""
        self.budget = clock.budget
        """Budget of the current round, shared by all functions."""
        self.rx_backlog = Backlog(
            self.budget, partial(contain, self), partial(self.ledger.hold, ARRIVALS)
        )
        """Frames and datagrams received by the port, deferred to the next rounds."""
        self.esw_backlog = Backlog(
            self.budget, partial(contain, self), partial(self.ledger.hold, CROSSING)
        )
        """Frames received by the switch that the function manages, deferred to the next rounds."""
        self.egress = Backlog(
            self.budget, partial(contain, self), partial(self.ledger.hold, EGRESS)
        )
        """Frames of send queues that wait inside the tables of NIC_TX."""
        self.sniffed = Backlog(
            self.budget, partial(contain, self), partial(self.ledger.hold, SNIFFED)
        )
        """Frames to be copied to sniffers."""
        self.sessions = Sessions()
        """Received packets that may be merged with later ones."""
        self.link_partner = LinkPartner()
        """State of the port at the other end of its cable."""
        self.repacing = Backlog(self.budget, partial(contain, self))
        """Send queues that look up their rate limits again."""
        self.has_new_rates = False
        """Whether a rate has changed since ``repacing`` started."""
        self.roce_pacing: Pacing | None = None
        """Rate limits of its RoCE; None while its vPort has no scheduling element."""
        self.ring_pages = RingPages(memory, lambda: self.faults is None)
        """Views of the pages of rings."""
        self.kept_views = 0
        """Number of views that keys have cached since all views were last dropped."""
        self.keys_with_views: set[int] = set()
        """Indices of keys with cached views; may include keys that no longer exist."""
        self.unhandled = unhandled if unhandled is not None else Unhandled()
        self._event_eqs: dict[EventType, Eq] = {}
        self.error_queue_poller = ErrorQueuePoller(self.clock)
        """Polls queues in ERR that have had no new WQEs for a while."""
        self.copies: dict[tuple[int, int], Copy] = {}
        """WQEs that are being copied behind send doorbells, by page and offset (BlueFlame)."""
        self.ready: deque[Queue] = deque()
        """Queues that wait for a poll (``emu.device.engine.lifecycle.run``)."""
        self.is_awake = True
        """Whether the function is scheduled to run."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when :meth:`wake` schedules the function."""
        self.dumped: dict[str, array[int]] = {}
        """Numbers of the queues that a resource dump lists, from its first access to its last."""
        self.holding: list[Cq] = []
        """CQs that hold packets until :meth:`Budget.release` of the round."""
        self.broken_cqs: list[Cq] = []
        """CQs that have just failed, whose queues must be stopped."""
        self.stopping: Iterator[bool] | None = None
        """Iterates over the queues to be stopped for such CQs; yields whether each has been
        stopped.
        """
        self.rate_limits: dict[int, RateLimit] = {}
        """The table of packet pacing, by index."""
        self.vector_moderation: dict[int, VectorModeration] = {}
        """Interrupt vectors with a minimum interval between interrupts."""
        self.pins = pins()
        """Pins of outgoing and incoming pulses."""
        self.held_capacity = HeldCapacity(self.ledger)
        self.page_faults = PageFaultTable(self.ledger)
        """Page faults that wait for the driver."""
        self.wire.attach(self)
        if self._nic_vport is not None:
            self.switch.attach(vhca)

    @property
    def adapter(self) -> Adapter[Hca]:
        """The adapter of the function."""
        return self.vhca.adapter

    @property
    def managed_by(self) -> Hca:
        """The function that manages the adapter, possibly this one; asserts that it exists."""
        node = self.adapter.manager.node
        assert node is not None  # its sub-functions have no power without it
        return node

    def pages_of(self, vport_number: int) -> FirmwarePages:
        """Return the pages given for a virtual function, or the function's own for number 0."""
        if not vport_number:
            return self.fwpages
        pages = self.vf_pages.get(vport_number)
        if pages is None:
            pages = self.vf_pages[vport_number] = FirmwarePages(0, self.ledger)
        return pages

    @property
    def given_pages(self) -> FirmwarePages:
        """Pages of the function, which for a virtual one its physical function's driver gives."""
        vhca = self.vhca
        return self.managed_by.pages_of(vhca.vport_number) if vhca.is_virtual else self.fwpages

    @property
    def eth_wire(self) -> EthWire[Hca]:
        """Wire of the adapter's Ethernet port."""
        return self.switch.uplink

    @property
    def port(self) -> Port:
        """The physical port, independent of its link layer."""
        return self._ib or self.eth

    @property
    def vport(self) -> Vport:
        """The function's vPort, independent of its link layer."""
        return self._ib or self.nic_vport

    @property
    def ib(self) -> IbPort:
        """The InfiniBand port. Raises BAD_OP_ERR for an Ethernet function."""
        if self._ib is None:
            raise CmdError(Status.BAD_OP_ERR, "not an InfiniBand port")
        return self._ib

    @property
    def eth(self) -> EthPort:
        """The physical Ethernet port. Raises BAD_OP_ERR for an InfiniBand function."""
        return self.nic_vport.port

    @property
    def nic_vport(self) -> NicVport:
        """The vPort of an Ethernet function. Raises BAD_OP_ERR for any other function."""
        if self._nic_vport is None:
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self._nic_vport

    @property
    def roce(self) -> RoceLink:
        """RoCE on the Ethernet port. Raises BAD_OP_ERR for an InfiniBand function."""
        if self._roce is None:
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self._roce

    def initialize(self) -> None:
        """Enter state INITIALIZED (INIT_HCA): empty tables with the limits of the CUR capabilities.

        The driver's version string is cleared. Objects in the former tables are not freed.
        """
        self.make_tables()
        self.driver = ""
        self.state = HcaState.INITIALIZED

    def forget_views(self) -> None:
        """Drop the cached views of guest memory of keys and rings; the next access takes new ones.

        The cost is at most that of creating the views: only keys in ``keys_with_views`` are
        visited.
        """
        for index in self.keys_with_views:
            if (mkey := self.mkeys.get(index)) is not None:
                mkey.forget_views()
        self.keys_with_views.clear()
        self.kept_views = 0
        self.ring_pages.forget()

    def end_lifetime(self) -> None:
        """Disable all timers and pending calls of the current objects; later ones get a new clock.

        Cancellation follows when the objects are freed, because timers may be numerous. Timers of
        wires and fault rules (``port_clock``) continue.
        """
        self.lifetime.is_over = True
        self.lifetime = Lifetime(self)
        self.clock = ContainedClock(self.bare_clock, self.lifetime)
        self.error_queue_poller = ErrorQueuePoller(self.clock)

    def drop_objects(self) -> None:
        """Drop all objects at once, with GIDs, rate limits, event subscriptions and resource dumps.

        Objects go to ``deferred_free``; new empty tables replace theirs. The switch of a manager is
        notified that its tables have changed. The caller must have stopped all work on the objects
        before.
        """
        self.teardowns += 1
        self.ring_pages.forget()
        self._event_eqs.clear()
        self.dumped.clear()
        self.gids.clear()
        self.rate_limits.clear()
        self.clear_tables(self.deferred_free)
        if self.eswitch is not None:
            self.switch.tables_changed()

    def fail(self) -> None:
        """Stop permanently because of the current exception: log it and call ``on_failure`` once.

        Counts ``internal_errors``. No timer, packet or poll reaches a function that has failed. A
        second call does nothing.
        """
        if self.has_failed:
            return
        self.has_failed = True
        self.internal_errors += 1
        log.exception("%s: internal error: the function stops", self.model.name)
        self._on_failure()

    def subscribe(self, eq: Eq) -> None:
        """Send the asynchronous event types in the EQ's mask to this EQ from now on.

        An earlier EQ gets them no more. COMP is left out: each CQ names its own EQ.
        """
        for event in EventType:
            if event is not EventType.COMP and eq.events >> event & 1:
                self._event_eqs[event] = eq

    def unsubscribe(self, eq: Eq) -> None:
        """Remove the subscriptions of an EQ that is being destroyed.

        Its event types have no EQ then.
        """
        self._event_eqs = {
            kind: owner for kind, owner in self._event_eqs.items() if owner is not eq
        }

    def event_eq(self, event: EventType) -> Eq | None:
        """Return the EQ that subscribed last to an asynchronous event type; None without one."""
        return self._event_eqs.get(event)

    def schedule(self, queue: Queue) -> None:
        """Append the queue to the ready list and wake the function.

        No effect if it is listed already.
        """
        if not queue.is_ready:
            queue.is_ready = True
            self.ready.append(queue)
            if not self.is_awake:
                self.is_awake = True
                self.on_work()

    def wake(self) -> None:
        """Schedule the function to run by calling ``on_work``; no effect while it is scheduled."""
        if not self.is_awake:
            self.is_awake = True
            self.on_work()


def _ib_port(model: Model, options: HcaOptions, vhca: Vhca[Hca]) -> IbPort:
    """Return a new InfiniBand port with the model's link; ``options`` give GUID, LID and P_Keys.

    A manager's is the physical port of its adapter. The end ports of virtual functions are behind
    it.
    """
    physical = vhca.adapter.manager.node if vhca.is_virtual else None
    port = IbPort(
        options.guid,
        model.ib_link_width_oper,
        model.ib_proto_oper,
        device_id=model.identity.device_id,
        lid=options.lid,
        attributes=(DEFAULT_PKEY, *options.pkeys),
        node_description=_described(model),
        behind=physical.ib if physical is not None else None,
        given=vhca.hca_vport,
        is_enabled=vhca.may_begin,
    )
    if vhca.is_manager:
        vhca.adapter.ports = [port]
        for other in vhca.adapter.virtual_functions():
            if other.node is not None:
                other.node.ib.behind = port
    return port


def _nic_vport(model: Model, options: HcaOptions, vhca: Vhca[Hca]) -> NicVport:
    """Create the function's vPort and register it in its adapter; the MAC comes from ``options``.

    A MAC of 0 means one that is derived from the GUID.
    """
    mac = options.mac.to_bytes(MAC_BYTES, "big") if options.mac else mac_of(options.guid)
    return vhca.start_ethernet(options.guid, mac, _described(model))


def _roce_link(vport: NicVport | None, gids: GidTable, vhca: Vhca[Hca]) -> RoceLink | None:
    """Return RoCE on the vPort; None without a vPort, for an InfiniBand function.

    The manager of a board with several ports gets a LagLink, which can use the other port.
    """
    if vport is None:
        return None
    has_others = vhca.is_manager and vhca.adapter.board.max_ports > 1
    return LagLink(vport, gids, vhca) if has_others else RoceLink(vport, gids)


def _described(model: Model) -> bytes:
    """Return the node description until the guest sets another one (rdma-ndd does)."""
    return f"{model.title}, mlx5emu".encode().ljust(NODE_DESCRIPTION_BYTES, b"\0")
