"""The tables of one function's objects, each with the limit that the driver was given.

Every handle, index or number from a guest is looked up in one of these. Each class below
``emu.device.objects``, or next to a command, that declares a kind has a table.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from emu.device import objects
from emu.device.objects.deferred_free import DeferredFree
from emu.device.objects.domains import Pd, QCounter, TransportDomain, Uar, Uctx, Xrcd
from emu.device.objects.eth.flow.domain import DECISIONS, FlowDomain
from emu.device.objects.eth.flow.table import ACLS, FlowEntry, FlowGroup, FlowTable
from emu.device.objects.eth.flow_counter import FlowCounter, FlowCounterBulk, FlowCounters
from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.pacing import SchedulingElement
from emu.device.objects.eth.packet_reformat import PacketReformat
from emu.device.objects.eth.parser import Parser
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.sq import AnySq
from emu.device.objects.eth.tir import Rqt, Tir
from emu.device.objects.eth.tis import Tis
from emu.device.objects.ledger import Ledger
from emu.device.objects.memory.memic import Memic, MemicArea
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.psv import Psv
from emu.device.objects.memory.sw_icm import DECODED, IcmMemory, free_each
from emu.device.objects.memory.umem import Umem
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import CommandIssuer, Object, kinds_below
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.dct import Dct
from emu.device.objects.queues.eq import Eq
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.queue import QUEUE_NUMBERS, ReservedQpn
from emu.device.objects.queues.srq import Srq
from emu.device.objects.table import Numbers, T, Table
from emu.device.objects.uar_pages import UarPages
from emu.device.port.eth.tunnel import MPLS_PORT
from emu.device.state.caps import Caps
from emu.device.state.eswitch import Eswitch
from layouts.enums.caps import FlexProtocol
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import GeneralObject

if TYPE_CHECKING:
    from emu.device.models import Model

MULTICAST: Final = "multicast"
"""Ledger account of queue pairs in multicast groups."""

for _module in walk_packages(objects.__path__, f"{objects.__name__}."):
    import_module(_module.name)


def kinds() -> list[type[Object]]:
    """Return the imported classes that declare a kind and a numbering, sorted by kind."""
    return [of for _, of in sorted(kinds_below(Object).items())]


@cache
def numberings() -> tuple[dict[type[Object], Numbering], list[Numbering]]:
    """Return the numbering of the objects of each kind, and the distinct number spaces; cached.

    The first function calls this, after the table of all commands exists, so all modules that
    declare kinds have been imported. Later declarations are not seen.
    """
    declared = {of: of.numbering for of in kinds() if of.numbering is not None}
    return declared, [*dict.fromkeys(how.space for how in declared.values())]


class ByClass(Protocol):
    """The tables by the class of their objects: ``hca.objects[Eq]`` is a ``Table[Eq]``.

    At run time it is a dictionary; this protocol tells mypy that the key determines the type.
    """

    def __getitem__(self, of: type[T], /) -> Table[T]: ...

    def values(self) -> Collection[Table[Any]]:
        """Return every table."""


class ObjectTables:
    """The objects that a driver's commands have created, and the host memory that they use."""

    def __init__(self, model: Model, vhca_id: int = 0, host: Ledger | None = None) -> None:
        """Create empty tables; ``host`` is the ledger of the parent function, for a
        sub-function.
        """
        self.model = model
        self.caps = Caps(model.capabilities, vhca_id)
        self.ledger = Ledger(model.host_bytes, host)
        """Host memory in use on behalf of the guest."""
        self.caller = CommandIssuer()
        self.dumped: dict[str, array[int]] = {}
        """Numbers of the queues that a resource dump lists, from its first access to its last."""
        self.has_signatures = False
        """Whether a key has or had block signatures, so segments may be longer on the wire."""
        self.make_tables()

    def make_tables(self) -> None:
        """Replace all tables by empty ones, with the limits of the CUR capabilities.

        Covers objects, device memory, software ICM, flow domains, E-Switch, QP0 and QP1, and
        multicast groups. The old objects are neither freed nor credited to the ledger.
        """
        self.uar_pages = UarPages(self.caps.general)
        has_memic = self.caps.general.device_memory
        self.memic = MemicArea(self.model.bar0_size) if has_memic else None
        """Memory at the end of BAR 0, on adapters that have it."""
        has_icm = self.caps.general.general_obj_types >> GeneralObject.SW_ICM & 1
        self.icm = IcmMemory(self.ledger) if has_icm else None
        """Memory for flow tables that drivers write themselves, on adapters that have it."""
        self.steering_memory: Any = None
        """Decodes the entries there (``emu.device.engine.eth.ste.walk.SteeringMemory``); None
        before the first table of that kind.
        """
        self._make_object_tables()
        self.pds = self.objects[Pd]
        self.xrcds = self.objects[Xrcd]
        self.tds = self.objects[TransportDomain]
        self.memics = self.objects[Memic]
        self.uars = self.objects[Uar]
        self.eqs = self.objects[Eq]
        self.cqs = self.objects[Cq]
        self.mkeys = self.objects[Mkey]
        self.qps = self.objects[Qp]
        self.dcts = self.objects[Dct]
        self.sqs = self.objects[AnySq]
        self.reserved_qpns = self.objects[ReservedQpn]
        self.rqs = self.objects[Rq]
        self.srqs = self.objects[Srq]
        self.counters = self.objects[QCounter]
        self.flow_counters = FlowCounters(
            self, self.objects[FlowCounter], self.objects[FlowCounterBulk]
        )
        self.scheduling_elements = self.objects[SchedulingElement]
        self.tises = self.objects[Tis]
        self.rqts = self.objects[Rqt]
        self.tirs = self.objects[Tir]
        self.flow_tables = self.objects[FlowTable]
        self.flow_groups = self.objects[FlowGroup]
        self.flow_entries = self.objects[FlowEntry]
        self.modify_headers = self.objects[ModifyHeader]
        self.packet_reformats = self.objects[PacketReformat]
        self.psvs = self.objects[Psv]
        self.uctxs = self.objects[Uctx]
        self.umems = self.objects[Umem]
        self._make_flow_domains()
        self.special_qps: dict[int, Qp] = {}
        """The queue pairs that receive as QP0 and QP1."""
        self.mcgs: dict[bytes, list[Qp]] = {}
        """Datagram queue pairs by the multicast GID that they are attached to."""

    def _make_object_tables(self) -> None:
        """Set ``objects`` to an empty table for each kind, and ``queues`` to the queue numbers."""
        declared, spaces = numberings()
        numbers = {space: self._numbers(space) for space in spaces}
        on = (self.ledger, self.caller)
        tables = {
            of: Table(of, how.first, how.limit(self), *on, numbers[how.space])
            for of, how in declared.items()
        }
        self.objects = cast("ByClass", tables)
        self.queues = numbers[QUEUE_NUMBERS]
        """The queues by number, of all classes that share these."""

    def _numbers(self, space: Numbering) -> Numbers:
        step = 1 if space.step is None else space.step(self)
        return Numbers(space.first, space.limit(self), step)

    def need_uar(self, number: int) -> Uar:
        """Return the doorbell page that contains a UAR. Raises BAD_RES_ERR for none of the
        caller's.
        """
        return self.uars.need(number & self.uar_pages.base_mask)

    @property
    def doorbell_end(self) -> int:
        """End of the pages in BAR 0 that may be doorbell pages, in bytes."""
        return self.memic.first if self.memic is not None else self.model.bar0_size

    def _make_flow_domains(self) -> None:
        """Create empty flow domains for all types, the packet parser, and a manager's E-Switch.

        ``flow_domains`` has only the types with ``ft_support``.
        """
        ledger = self.ledger
        self.rdma_rx, self.rdma_tx = FlowDomain(ledger), FlowDomain(ledger)
        """Flow tables of RoCE packets, which never have a root without ``ft_support``."""
        nic_rx, self.nic_tx = FlowDomain(ledger), FlowDomain(ledger)
        self.sniffer_rx, self.sniffer_tx = FlowDomain(ledger), FlowDomain(ledger)
        """Flow tables for copies of all received packets and of all sent ones."""
        self.is_sniffed = False
        """Whether one of the sniffer domains has a root."""
        self.port_sel = FlowDomain(ledger)
        """Flow tables that select the egress port of a LAG."""
        domains = {
            FlowTableType.NIC_RX: nic_rx, FlowTableType.NIC_TX: self.nic_tx,
            FlowTableType.RDMA_RX: self.rdma_rx, FlowTableType.RDMA_TX: self.rdma_tx,
            FlowTableType.SNIFFER_RX: self.sniffer_rx, FlowTableType.SNIFFER_TX: self.sniffer_tx,
            FlowTableType.PORT_SEL: self.port_sel,
        }  # fmt: skip
        self.flow_domains: dict[int, FlowDomain] = {
            kind: domain
            for kind, domain in domains.items()
            if self.caps.flow_properties(kind).ft_support
        }
        """By flow_table_type; the types with ``ft_support``, without those of a switch."""
        knows_mpls = self.caps.general.flex_parser_protocols & FlexProtocol.CW_MPLS_UDP
        self.parser = Parser(mpls_port=MPLS_PORT if knows_mpls else 0)
        """Packet parser of the switch, flow tables and offloads."""
        self.eswitch = Eswitch(ledger) if self.caps.general.eswitch_manager else None
        """The embedded switch that the function manages."""
        self._set_parser(self.parser)

    def note_sniffers(self) -> None:
        """Update ``is_sniffed`` after a sniffer's root has changed: whether any root is left."""
        self.is_sniffed = self.sniffer_rx.root is not None or self.sniffer_tx.root is not None

    def parse_vxlan(self, ports: frozenset[int]) -> None:
        """Parse UDP packets to exactly these ports as VXLAN from now on.

        Flush all cached decisions.
        """
        self._set_parser(self.parser._replace(vxlan_ports=ports))

    def parse_geneve_option(self, header: bytes | None) -> None:
        """Parse the Geneve option with this four-byte header, or none.

        Flush all cached decisions.
        """
        self._set_parser(self.parser._replace(geneve_option=header))

    def _set_parser(self, parser: Parser) -> None:
        """Set the parser of the function, its flow domains and its switch; flush decisions."""
        self.parser = parser
        for domain in self.flow_domains.values():
            domain.parse_by(parser)
        if self.eswitch is not None:
            self.eswitch.parse_by(parser)

    def flow_domain(self, table_type: int, vport: int = 0) -> FlowDomain | None:
        """Return the flow tables of a type; of vPort ``vport``, if it is a type of ACLs.

        None for a type that the function does not have; FDB and ACLs need an E-Switch. The vPort
        must exist.
        """
        if self.eswitch is not None:
            if table_type == FlowTableType.FDB:
                return self.eswitch.fdb
            if table_type in ACLS:
                return self.eswitch.acl(FlowTableType(table_type), vport)
        return self.flow_domains.get(table_type)

    @property
    def tables(self) -> Collection[Table[Any]]:
        """Every table, for summaries and leak checks."""
        return self.objects.values()

    def clear_tables(self, deferred_free: DeferredFree) -> None:
        """Move all objects to ``deferred_free`` and make new empty tables.

        Credit the ledger at once. ``deferred_free`` frees some objects in each round. Reference
        counts are not updated.
        """
        for table in self.tables:
            deferred_free.add(table.clear())
            self.ledger.close(table.kind)
        if self.icm is not None and (pages := self.icm.drop()):
            deferred_free.add_work(free_each(pages))
        if self.mcgs:
            deferred_free.add_work(_forget_groups(self.mcgs))
        self.ledger.close(MULTICAST)
        self.ledger.close(DECISIONS)
        self.ledger.close(DECODED)
        self.caller.owned.clear()
        self.dumped.clear()
        self.make_tables()


def _forget_groups(groups: dict[bytes, list[Qp]]) -> Iterator[int]:
    """Forget the memberships of dropped queue pairs; yield the cost of each group, in objects.

    Both sides of a membership are removed: a queue pair may have a million.
    """
    while groups:
        gid, members = groups.popitem()
        for qp in members:
            del qp.mcgs[gid]
        yield len(members)
