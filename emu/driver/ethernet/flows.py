"""Flow tables, groups and entries by command, as core/fs_cmd.c makes them."""

from __future__ import annotations

from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    group_fields,
    miss_fields,
    table_fields,
)
from layouts.enums import Op
from layouts.eth_enums import SetFte
from layouts.fte import flow_context
from layouts.vport import traffic_counter


class Flows:
    """The steering commands of a driver."""

    def __init__(self, driver):
        self.driver = driver

    def table(self, level, log_size=4, miss=None, **fields):
        fields = table_fields(level, log_size, miss, **fields)
        return self.driver.must(Op.CREATE_FLOW_TABLE, **fields).table_id

    def group(self, table, first, last, **masks):
        fields = group_fields(table, first, last, **masks)
        return self.driver.must(Op.CREATE_FLOW_GROUP, **fields).group_id

    def entry(self, table, index, group, *destinations, **options):
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(Op.SET_FLOW_TABLE_ENTRY, **fields)

    def modify(self, table, index, group, *destinations, mask=None, **options):
        if mask is None:
            mask = SetFte.ACTION | SetFte.DESTINATION_LIST
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(Op.SET_FLOW_TABLE_ENTRY, op_mod=1, modify_enable_mask=mask, **fields)

    def delete(self, table, index):
        self.driver.must(Op.DELETE_FLOW_TABLE_ENTRY, table_id=table, flow_index=index)

    def set_miss(self, table, miss):
        self.driver.must(
            Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=1,
            flow_table_context=miss_fields(miss),
        )  # fmt: skip

    def set_root(self, table):
        self.driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table)

    def query_entry(self, table, index, room=8):
        """The flow_context, and the 8-byte items of its lists as far as there is room."""
        answer = self.driver.must(
            Op.QUERY_FLOW_TABLE_ENTRY, table_id=table, flow_index=index, out_extra=8 * room
        )
        context = answer.out.flow_context
        assert context.prm is flow_context
        listed = context.destination_list_size + context.flow_counter_list_size
        return context, [context.destination[n] for n in range(min(listed, room))]

    def context(self, *actions):
        return self.driver.must(
            Op.ALLOC_MODIFY_HEADER_CONTEXT, **context_fields(*actions)
        ).modify_header_id

    def counter(self):
        return self.driver.must(Op.ALLOC_FLOW_COUNTER).flow_counter_id

    def counted(self, number):
        """Packets and bytes of a flow counter."""
        answer = self.driver.must(
            Op.QUERY_FLOW_COUNTER, out_extra=traffic_counter.size, flow_counter_id=number
        )
        (found,) = answer.flow_statistics
        return found.packets, found.octets
