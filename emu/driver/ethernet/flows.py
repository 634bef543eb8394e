"""Flow tables, groups and entries by command, as core/fs_cmd.c makes them."""

from __future__ import annotations

from typing import Any

from emu.driver.command.answer import expect
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    group_fields,
    miss_fields,
    table_fields,
)
from layouts.enums import Op
from layouts.eth_enums import SetFte
from layouts.function.vport import traffic_counter
from layouts.steering.fte import flow_context


class Flows:
    """The steering commands of a driver. Tables, groups and contexts are numbers.

    ``destinations`` are those of ``flow_fields``, ``index`` is an entry's place in its table.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def table(self, level: int, log_size: int = 4, miss: int | None = None, **context: Any) -> int:
        """A new table of ``1 << log_size`` entries."""
        fields = table_fields(level, log_size, miss, **context)
        return int(self.driver.must(Op.CREATE_FLOW_TABLE, **fields).table_id)

    def group(self, table: int, first: int, last: int, **masks: Any) -> int:
        """A group of the entries from ``first`` to ``last``."""
        fields = group_fields(table, first, last, **masks)
        return int(self.driver.must(Op.CREATE_FLOW_GROUP, **fields).group_id)

    def entry(
        self, table: int, index: int, group: int, *destinations: bytes, **options: Any
    ) -> None:
        """Set an entry; ``options`` are those of ``entry_fields``."""
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(Op.SET_FLOW_TABLE_ENTRY, **fields)

    def modify(
        self, table: int, index: int, group: int, *destinations: bytes,
        mask: SetFte | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Change what ``mask`` names of an entry."""
        if mask is None:
            mask = SetFte.ACTION | SetFte.DESTINATION_LIST
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(Op.SET_FLOW_TABLE_ENTRY, op_mod=1, modify_enable_mask=mask, **fields)

    def delete(self, table: int, index: int) -> None:
        """DELETE_FLOW_TABLE_ENTRY."""
        self.driver.must(Op.DELETE_FLOW_TABLE_ENTRY, table_id=table, flow_index=index)

    def set_miss(self, table: int, miss: int | None) -> None:
        """Another table for what misses; None for the default."""
        self.driver.must(
            Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=1,
            flow_table_context=miss_fields(miss),
        )  # fmt: skip

    def set_root(self, table: int) -> None:
        """SET_FLOW_TABLE_ROOT."""
        self.driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table)

    def query_entry(self, table: int, index: int, room: int = 8) -> tuple[Any, list[Any]]:
        """The flow_context, and the 8-byte items of its lists as far as there is room."""
        answer = self.driver.must(
            Op.QUERY_FLOW_TABLE_ENTRY, table_id=table, flow_index=index, out_extra=8 * room
        )
        context = answer.out.flow_context
        expect(context.prm is flow_context, "another structure than a flow context")
        listed = context.destination_list_size + context.flow_counter_list_size
        return context, [context.destination[n] for n in range(min(listed, room))]

    def context(self, *actions: bytes) -> int:
        """A header context of these actions."""
        fields = context_fields(*actions)
        return int(self.driver.must(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields).modify_header_id)

    def counter(self) -> int:
        """A flow counter."""
        return int(self.driver.must(Op.ALLOC_FLOW_COUNTER).flow_counter_id)

    def counted(self, number: int) -> tuple[int, int]:
        """Packets and bytes of a flow counter."""
        answer = self.driver.must(
            Op.QUERY_FLOW_COUNTER, out_extra=traffic_counter.size, flow_counter_id=number
        )
        (found,) = answer.flow_statistics
        return found.packets, found.octets
