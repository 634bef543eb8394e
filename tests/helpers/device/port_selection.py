"""Flow tables that choose a LAG's port, as core/lag/port_sel.c makes them."""

from __future__ import annotations

from emu.device.models import MODELS
from emu.device.models.board_ports import with_port_selection
from emu.driver.ethernet.flow_fields import entry_fields, group_fields
from emu.driver.ethernet.flows import Flows
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowGroupType, FlowTableType
from layouts.enums.fte import FlowDestination
from layouts.enums.general_object import GeneralObject
from layouts.enums.lag import LagPortSelect
from layouts.steering import match_definer as layout
from layouts.steering.fte import dest_format_struct

MODEL = with_port_selection(MODELS["connectx6dx"])
BY_TABLES = {"port_select_mode": LagPortSelect.PORT_SELECT_FT}
KIND = {"table_type": FlowTableType.PORT_SEL}
SPLIT = {**KIND, "group_type": FlowGroupType.HASH_SPLIT}
MACS = {
    "outer_dmac_47_16": 0xFFFFFFFF, "outer_dmac_15_0": 0xFFFF,
    "outer_smac_47_16": 0xFFFFFFFF, "outer_smac_15_0": 0xFFFF,
}  # fmt: skip
PORTS = {
    "outer_l4_sport": 0xFFFF, "outer_l4_dport": 0xFFFF,
    "outer_ip_src_addr": 0xFFFFFFFF, "outer_ip_dest_addr": 0xFFFFFFFF,
}  # fmt: skip


def definer_fields(form=layout.match_definer_format_22, number=22, **masks):
    """What CREATE_GENERAL_OBJECT takes for a match definer."""
    obj = layout.match_definer.new(format_id=number, match_mask=bytes(form.new(**masks)))
    return {"op_mod": GeneralObject.MATCH_DEFINER, "extra": bytes(obj)}


def to_cable(vhca):
    """A destination of an entry: the cable of the port whose function has this vhca id."""
    return bytes(
        dest_format_struct.new(
            destination_type=FlowDestination.UPLINK, destination_eswitch_owner_vhca_id_valid=1,
            destination_eswitch_owner_vhca_id=vhca,
        )
    )  # fmt: skip


class PortTables:
    """The tables of a bond that hashes: all packets are of one kind."""

    def __init__(self, driver, ids, **masks):
        """``ids`` are the vhca ids of the functions of the ports, in their order."""
        self.driver, self.ids = driver, ids
        self.flows = Flows(driver, FlowTableType.PORT_SEL)
        self.definer = driver.must(
            Op.CREATE_GENERAL_OBJECT, **definer_fields(**(masks or PORTS))
        ).obj_id
        self.table = self.flows.table(2)
        group = {**group_fields(self.table, 0, 1), "match_definer_id": self.definer}
        self.group = driver.must(Op.CREATE_FLOW_GROUP, **SPLIT, **group).group_id
        for index, number in enumerate(ids):
            self.flows.entry(self.table, index, self.group, to_cable(number))
        self.root = self.flows.table(0)
        self.whole = whole = self.flows.group(self.root, 0, 0)
        to_split = dest_format_struct.new(
            destination_type=FlowDestination.FLOW_TABLE, destination_id=self.table
        )
        self.flows.entry(self.root, 0, whole, bytes(to_split))
        self.flows.set_root(self.root)

    def lead(self, *ports):
        """What the entries lead to after a change of the bond: the cables of these ports."""
        for index, port in enumerate(ports):
            self.flows.modify(self.table, index, self.group, to_cable(self.ids[port - 1]))

    def change(self, **changes):
        """The fields of the first entry with these ``changes``."""
        given = entry_fields(self.table, 0, self.group, to_cable(self.ids[0]))
        return {**KIND, **given, **changes}

    def destroy(self):
        """As the driver does, after the LAG."""
        must = self.driver.must
        self.flows.delete(self.root, 0)
        must(Op.DESTROY_FLOW_GROUP, **KIND, table_id=self.root, group_id=self.whole)
        must(Op.DESTROY_FLOW_TABLE, **KIND, table_id=self.root)
