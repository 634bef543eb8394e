"""A switch with one function and two tables of its forwarding database (FDB)."""

from __future__ import annotations

from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from helpers.device.adapters import Member, made_with_switch
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction

UPLINK = 0xFFFF
LAST = 15
"""Index of the last entry of a table."""


class Switch:
    """Its manager's packets begin in the first table."""

    def __init__(self, clock):
        self.wire = TapWire()
        self.manager = Member(made_with_switch(self.wire).manager, clock)
        self.driver = self.manager.driver
        self.fdb = Flows(self.driver, FlowTableType.FDB)
        td = alloc_td(self.driver)
        self.sq = SendQueue(self.manager.node, tisn=create_tis(self.driver, td))
        options = {"reformat_en": 1, "decap_en": 1}
        self.first, self.second = (self.fdb.table(level, **options) for level in (0, 1))
        self.fdb.set_root(self.first)

    def entry(self, *to, table=None, **options):
        """An entry that matches everything, and leads to the cable if nothing else is said."""
        table = table or self.first
        group = self.fdb.group(table, 0, 0)
        self.fdb.entry(table, 0, group, *(to or [to_vport(UPLINK)]), **options)

    def drop_rest(self, table=None):
        """Drop what no other entry matches, which else leaves by the cable."""
        table = table or self.first
        self.fdb.entry(table, LAST, self.fdb.group(table, LAST, LAST), action=FlowAction.DROP)

    def passes(self, frame):
        """What leaves by the cable when the manager has sent a frame."""
        self.sq.send(frame)
        self.manager.node.settle()
        return [frame.data for frame in self.wire.sent()]
