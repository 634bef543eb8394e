"""The configuration of an embedded switch (E-Switch) by its manager, between two resets.

Its objects are the manager's own: tables of the FDB and of ACLs are among the manager's flow
tables. :class:`Eswitch` holds their use: the root tables, and the context of each vPort.
``emu.device.engine.esw`` forwards the frames.

Source: PRM "E-Switch"; mlx5_ifc.h: esw_vport_context; core/lib/mpfs.c.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.pacing import SchedulingElement
from emu.device.objects.eth.parser import Parser
from emu.device.objects.ledger import Ledger
from layouts.enums.flow_table import FlowTableType


class EswVport:
    """The switch's state of a vPort."""

    __slots__ = ("classes", "egress", "element", "ingress", "reg_c_id")

    def __init__(self, ledger: Ledger) -> None:
        self.ingress = FlowDomain(ledger)
        """ACL of packets that the vPort sends, before the FDB."""
        self.egress = FlowDomain(ledger)
        """ACL of packets to the vPort, after the FDB."""
        self.reg_c_id = 0
        """Registers C that are passed with a packet, one bit each (fdb_to_vport_reg_c_id)."""
        self.element: SchedulingElement | None = None
        """Limits the send rate of the vPort's function."""
        self.classes: dict[int, SchedulingElement] = {}
        """Limits it by traffic class instead."""

    @property
    def is_limited(self) -> bool:
        """Whether an element limits the vPort or one of its traffic classes."""
        return self.element is not None or bool(self.classes)

    def parse_by(self, parser: Parser) -> None:
        """Use a parser in both ACLs, and drop their cached decisions."""
        self.ingress.parse_by(parser)
        self.egress.parse_by(parser)

    def leaf(self, traffic_class: int) -> SchedulingElement | None:
        """Return the element that limits a traffic class; None without one."""
        return self.element if self.element is not None else self.classes.get(traffic_class)


class L2Entry(NamedTuple):
    """A unicast address in the table of the physical port (MPFS).

    The table distributes unicast frames among several physical functions behind one port. The
    emulated port has one, which gets all of them.
    """

    mac: bytes
    vlan: int | None


class ForeignRoot(NamedTuple):
    """A root table in the FDB of another switch of the board."""

    owner: int
    """The vhca id of that switch's manager."""
    fdb: FlowDomain
    table: FlowTable


class Eswitch:
    """The switch of a manager."""

    def __init__(self, ledger: Ledger) -> None:
        """Create a switch without tables; ``ledger`` has the manager's accounts."""
        self._ledger = ledger
        self.fdb = FlowDomain(ledger)
        """The forwarding database. Without a root it connects only the manager's vPort and the
        cable.
        """
        self.fdb.forwards_misses = True
        self.foreign_root: ForeignRoot | None = None
        """Replaces the root of the own FDB, when switches share an FDB."""
        self._vports: dict[int, EswVport] = {}
        self.l2_table: dict[int, L2Entry] = {}
        """Entries by index."""

    @property
    def decides(self) -> bool:
        """Whether packets have a root table."""
        return self.fdb.root is not None or self.foreign_root is not None

    def begin(self) -> tuple[FlowDomain, FlowTable | None]:
        """Return the flow domain that packets enter, and their first table; None for its root.

        The domain is that of ``foreign_root`` while switches share an FDB, otherwise the own FDB.
        """
        foreign = self.foreign_root
        if foreign is None:
            return self.fdb, None
        is_root = foreign.table is foreign.fdb.root
        return foreign.fdb, None if is_root else foreign.table

    def vport(self, number: int) -> EswVport:
        """Return the state of vPort ``number``, created with empty ACLs at its first use.

        The number is not checked: the caller must have found that the vPort exists.
        """
        vport = self._vports.get(number)
        if vport is None:
            vport = self._vports[number] = EswVport(self._ledger)
            vport.parse_by(self.fdb.parser)
        return vport

    def end_rates(self) -> frozenset[int]:
        """Forget the scheduling elements, as their manager ends; return the vPorts that had any."""
        limited = {number: vport for number, vport in self._vports.items() if vport.is_limited}
        for vport in limited.values():
            vport.element, vport.classes = None, {}
        return frozenset(limited)

    def parse_by(self, parser: Parser) -> None:
        """Use a parser in all tables of the switch; drop their cached decisions."""
        self.fdb.parse_by(parser)
        for vport in self._vports.values():
            vport.parse_by(parser)

    def acl(self, kind: FlowTableType, number: int) -> FlowDomain:
        """Return a vPort's ingress ACL for ESW_INGRESS_ACL, its egress ACL for any other kind."""
        vport = self.vport(number)
        return vport.ingress if kind is FlowTableType.ESW_INGRESS_ACL else vport.egress
