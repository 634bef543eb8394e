"""The state of one function between two resets: ports to the outside, capabilities, objects.

A reset creates a new ``Hca`` on the same ports. An ``Hca`` does no I/O and does nothing by itself:
firmware commands (``emu.device.cmdif``) and the engine (``emu.device.engine``) operate on it, and
``emu.device.engine.lifecycle`` stops it and polls its queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.adapter.lag_link import LagLink
from emu.device.errors import CmdError
from emu.device.objects.deferred_free import DeferredFree
from emu.device.objects.eth.nodnic import Nodnic
from emu.device.objects.ledger import Ledger
from emu.device.objects.pins import pins
from emu.device.objects.queues.copies import Copy
from emu.device.objects.queues.page_fault import PageFaultTable
from emu.device.port.base import NODE_DESCRIPTION_BYTES, Port, Vport
from emu.device.port.eth.link_partner import LinkPartner
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.roce.gids import GidTable
from emu.device.port.eth.roce.link import RoceLink
from emu.device.port.eth.traffic import MAC_BYTES
from emu.device.port.eth.vport import NicVport, mac_of
from emu.device.port.eth.wire import EthWire
from emu.device.port.ib.port import DEFAULT_PKEY, IbPort
from emu.device.port.ib.wire import IbWire
from emu.device.port.link import Link
from emu.device.ports import Clock, GuestMemory, Interrupts
from emu.device.state.completions import Completions
from emu.device.state.containment import ContainedClock, Lifetime, contain
from emu.device.state.events import Events
from emu.device.state.fwpages import FirmwarePages
from emu.device.state.held import HeldCapacity
from emu.device.state.parts.backlogs import Backlogs
from emu.device.state.parts.counts import Counts
from emu.device.state.parts.health import Health
from emu.device.state.parts.rates import Rates
from emu.device.state.parts.scheduler import Scheduler
from emu.device.state.parts.unhandled import Unhandled
from emu.device.state.probes import Probes
from emu.device.state.sessions import Sessions
from emu.device.state.sub_functions import SubFunction, SubFunctions
from emu.device.state.tables import ObjectTables
from emu.device.state.timer import FreeRunningTimer
from emu.device.state.view_cache import ViewCache
from layouts.enums.caps import PortType
from layouts.enums.cmd import Status

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.state.tracer import DeviceTracer

MSIX_VECTORS: Final = 64


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


@dataclass(slots=True)
class DriverIdentity:
    """The driver of a function, as its commands have described it."""

    issi: int = 0
    """Version of the command interface that it uses (SET_ISSI)."""
    version: str = ""
    """Version string (SET_DRIVER_VERSION); empty before that command."""


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
        self.health = Health(model.name, on_failure)
        self.counts = Counts(unhandled if unhandled is not None else Unhandled())
        self.scheduler = Scheduler()
        self.budget = clock.budget
        """Budget of the current round, shared by all functions."""
        self.probes = Probes(tracer)
        self.port_clock = ContainedClock(clock, self.health)
        """Clock of wires and fault rules, which outlive the objects."""
        self.lifetime = Lifetime(clock, self.health)
        """Lifetime of the current objects."""
        self.clock: Clock = self.lifetime.clock
        """Clock of objects: none of their timers fires after they have been dropped."""
        self.view_cache = ViewCache(memory, self.probes, self)
        self.events = Events(interrupts, self.clock, self.probes, self.view_cache.ring_pages)
        self.sub_functions: SubFunctions[Hca] | None = None
        """Sub-functions that the function manages; None if it can have none."""
        self.sub_function: SubFunction[Hca] | None = None
        """The manager's record of this function, if it is a sub-function."""
        frequency = model.general["device_frequency_khz"]
        ticks = FreeRunningTimer(self.clock, frequency, vhca.adapter.real_time)
        self.state = HcaState.DISABLED
        self._ib = _ib_port(model, options, vhca) if model.port_type is PortType.IB else None
        is_eth = model.port_type is PortType.ETH
        self._nic_vport = _nic_vport(model, options, vhca) if is_eth else None
        self.gids = GidTable(self.caps.roce.roce_address_table_size)
        """The GID table of an Ethernet port."""
        self.link: Link = self._ib or _roce_link(self.nic_vport, self.gids, vhca)
        """Link of the transport services."""
        self.wire: IbWire[Hca] = wire
        """Carries transport packets."""
        self.switch = vhca.adapter.switch
        """Carries the frames of an Ethernet vPort."""
        self.segment = self.switch.segment_of(vhca)
        """Wire behind the switch, as the function sees it."""
        self.deferred_free = deferred_free if deferred_free is not None else DeferredFree()
        self.fwpages = FirmwarePages(options.boot_pages, self.ledger)
        self.driver = DriverIdentity()
        """Cleared by INIT_HCA, except the ISSI."""
        contained = partial(contain, self.health)
        self.cqes = Completions(memory, self.events, self.scheduler, self.budget, ticks, contained)
        """The state for writing completions."""
        self.backlogs = Backlogs(self.budget, contained, self.ledger)
        self.rates = Rates(self.budget, contained)
        self.sessions = Sessions()
        """Received packets that may be merged with later ones."""
        self.link_partner = LinkPartner()
        """State of the port at the other end of its cable."""
        self.copies: dict[tuple[int, int], Copy] = {}
        """WQEs that are being copied behind send doorbells, by page and offset (BlueFlame)."""
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

    @property
    def given_pages(self) -> FirmwarePages:
        """Pages of the function, which for a virtual one its physical function's driver gives."""
        vhca = self.vhca
        return self.managed_by.fwpages.of(vhca.vport_number) if vhca.is_virtual else self.fwpages

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
    def nodnic(self) -> Nodnic | None:
        """The NIC of boot firmware, which only managers of an Ethernet port have."""
        return None if self._nic_vport is None else self._nic_vport.nodnic

    @property
    def nic_vport(self) -> NicVport:
        """The vPort of an Ethernet function. Raises BAD_OP_ERR for any other function."""
        if self._nic_vport is None:
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self._nic_vport

    @property
    def roce(self) -> RoceLink:
        """RoCE on the Ethernet port. Raises BAD_OP_ERR for an InfiniBand function."""
        if not isinstance(self.link, RoceLink):
            raise CmdError(Status.BAD_OP_ERR, "not an Ethernet port")
        return self.link

    def initialize(self) -> None:
        """Enter state INITIALIZED (INIT_HCA): empty tables with the limits of the CUR capabilities.

        The driver's version string is cleared. Objects in the former tables are not freed.
        """
        self.make_tables()
        self.driver.version = ""
        self.state = HcaState.INITIALIZED

    def end_lifetime(self) -> None:
        """Disable all timers and pending calls of the current objects; later ones get a new clock.

        Cancellation follows when the objects are freed, because timers may be numerous. Timers of
        wires and fault rules (``port_clock``) continue.
        """
        self.lifetime.is_over = True
        self.lifetime = Lifetime(self.port_clock.bare, self.health)
        self.clock = self.events.clock = self.lifetime.clock

    def drop_objects(self) -> None:
        """Drop all objects at once, with GIDs, rate limits, event subscriptions and resource dumps.

        Objects go to ``deferred_free``; new empty tables replace theirs. The switch of a manager is
        notified that its tables have changed. The caller must have stopped all work on the objects
        before.
        """
        self.counts.teardowns += 1
        self.view_cache.ring_pages.forget()
        self.events.subscribers.clear()
        self.gids.clear()
        self.rates.limits.clear()
        self.clear_tables(self.deferred_free)
        if self.eswitch is not None:
            self.switch.tables_changed()


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
        pkey_table=(DEFAULT_PKEY, *options.pkeys),
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
                other.node.ib.follow_link()  # the manager's settings for it are gone
    return port


def _nic_vport(model: Model, options: HcaOptions, vhca: Vhca[Hca]) -> NicVport:
    """Create the function's vPort and register it in its adapter; the MAC comes from ``options``.

    A MAC of 0 means one that is derived from the GUID.
    """
    if options.mac or vhca.is_virtual:
        # A virtual function has no address until its manager gives it one: its driver chooses one
        # at random (core/en_main.c: mlx5e_set_netdev_dev_addr).
        mac = options.mac.to_bytes(MAC_BYTES, "big")
    else:
        mac = mac_of(options.guid)
    return vhca.start_ethernet(options.guid, mac, _described(model))


def _roce_link(vport: NicVport, gids: GidTable, vhca: Vhca[Hca]) -> RoceLink:
    """Return RoCE on the vPort.

    The manager of a board with several ports gets a LagLink, which can use the other port.
    """
    has_others = vhca.is_manager and vhca.adapter.board.max_ports > 1
    if has_others:
        return LagLink(vport, gids, vhca)
    return RoceLink(vport, gids)


def _described(model: Model) -> bytes:
    """Return the node description until the guest sets another one (rdma-ndd does)."""
    return f"{model.title}, mlx5emu".encode().ljust(NODE_DESCRIPTION_BYTES, b"\0")
