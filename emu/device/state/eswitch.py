"""What the manager of an embedded switch (E-Switch) has made of it, between two resets.

Its objects are the manager's own: tables of the FDB and of ACLs are among the manager's flow
tables. Here is what they do: where packets begin, and what each vPort's context says. How frames
pass is in ``emu.device.engine.esw``.

Source: PRM "E-Switch"; mlx5_ifc.h: esw_vport_context; core/lib/mpfs.c.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.device.objects.eth.flow import FlowDomain, FlowTable
from emu.device.objects.eth.pacing import SchedulingElement
from emu.device.objects.ledger import Ledger
from layouts.eth_enums import FlowTableType


class EswVport:
    """A vPort, as the switch has it."""

    __slots__ = ("egress", "element", "ingress", "reg_c_id")

    def __init__(self, ledger: Ledger) -> None:
        self.ingress = FlowDomain(ledger)
        """The ACL of what the vPort sends, before the FDB."""
        self.egress = FlowDomain(ledger)
        """The ACL of what it gets, after the FDB."""
        self.reg_c_id = 0
        """Which registers C come with a packet, one bit each (fdb_to_vport_reg_c_id)."""
        self.element: SchedulingElement | None = None
        """What limits the rate at which its function sends."""


class L2Entry(NamedTuple):
    """An address of the table of the physical port (MPFS): its frames are for this adapter.

    The table distributes unicast frames among several physical functions behind one port. This port
    has one, which gets all of them.
    """

    mac: bytes
    vlan: int | None


class ForeignRoot(NamedTuple):
    """A table in the FDB of another switch of the board, where packets begin."""

    owner: int
    """The vhca id of that switch's manager."""
    fdb: FlowDomain
    table: FlowTable


class Eswitch:
    """The switch of a manager."""

    def __init__(self, ledger: Ledger) -> None:
        """``ledger`` has the manager's accounts."""
        self._ledger = ledger
        self.fdb = FlowDomain(ledger)
        """The forwarding database: where each packet goes. Without a root there is the manager's
        vPort and the cable, and nothing else."""
        self.foreign_root: ForeignRoot | None = None
        """Instead of the FDB's own root: the switches share an FDB, and this one's is not asked."""
        self._vports: dict[int, EswVport] = {}
        self.l2_table: dict[int, L2Entry] = {}
        """By index."""

    @property
    def decides(self) -> bool:
        """Whether there is a table where packets begin."""
        return self.fdb.root is not None or self.foreign_root is not None

    def begin(self) -> tuple[FlowDomain, FlowTable | None]:
        """The FDB that decides about packets, and where they begin there: None for its root."""
        foreign = self.foreign_root
        if foreign is None:
            return self.fdb, None
        is_root = foreign.table is foreign.fdb.root
        return foreign.fdb, None if is_root else foreign.table

    def vport(self, number: int) -> EswVport:
        """The vPort with this number, which the caller has found to exist."""
        vport = self._vports.get(number)
        if vport is None:
            vport = self._vports[number] = EswVport(self._ledger)
        return vport

    def acl(self, kind: FlowTableType, number: int) -> FlowDomain:
        """The ACL of a vPort; ``kind`` says which of the two."""
        vport = self.vport(number)
        return vport.ingress if kind is FlowTableType.ESW_INGRESS_ACL else vport.egress
