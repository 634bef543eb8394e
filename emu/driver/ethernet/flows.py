"""Flow tables, groups and entries by command, as in core/fs_cmd.c."""

from __future__ import annotations

from typing import Any

from emu.driver.command.answer import expect
from emu.driver.command.driver import Driver, Fields
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    group_fields,
    miss_fields,
    table_fields,
)
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import SetFte
from layouts.function.vport import traffic_counter
from layouts.steering.fte import flow_context


class Flows:
    """Steering commands of a driver; tables, groups and contexts are numbers.

    ``destinations`` are those of ``flow_fields``, ``index`` is an entry's index in its table.
    """

    def __init__(
        self, driver: Driver, table_type: FlowTableType = FlowTableType.NIC_RX, vport: int = 0
    ) -> None:
        """Use the tables of ``table_type``; ``vport`` is another vPort that owns an ACL."""
        self.driver = driver
        self._type: Fields = {"table_type": table_type}
        self._of: Fields = {**self._type, "vport_number": vport, "other_vport": int(vport > 0)}

    def table(
        self, level: int, log_size: int = 4, miss: int | None = None, **context: object
    ) -> int:
        """Create a table of ``1 << log_size`` entries; return its number.

        ``miss`` is the table for packets without a match. Raises DriverCommandError if refused.
        """
        fields = table_fields(level, log_size, miss, **context)
        return int(self.driver.must(Op.CREATE_FLOW_TABLE, **self._of, **fields).table_id)

    def group(self, table: int, first: int, last: int, **masks: Any) -> int:
        """Create a group of the entries from ``first`` to ``last``; return its number."""
        fields = group_fields(table, first, last, **masks)
        return int(self.driver.must(Op.CREATE_FLOW_GROUP, **self._of, **fields).group_id)

    def entry(
        self, table: int, index: int, group: int, *destinations: bytes, **options: Any
    ) -> None:
        """Create an entry; ``options`` are those of ``entry_fields``.

        Raises DriverCommandError if refused.
        """
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(Op.SET_FLOW_TABLE_ENTRY, **self._of, **fields)

    def modify(
        self, table: int, index: int, group: int, *destinations: bytes,
        mask: SetFte | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Change the fields of an entry that ``mask`` selects.

        By default these are actions and destinations. Raises DriverCommandError if refused.
        """
        if mask is None:
            mask = SetFte.ACTION | SetFte.DESTINATION_LIST
        fields = entry_fields(table, index, group, *destinations, **options)
        self.driver.must(
            Op.SET_FLOW_TABLE_ENTRY, op_mod=1, modify_enable_mask=mask, **self._of, **fields
        )

    def delete(self, table: int, index: int) -> None:
        """Run DELETE_FLOW_TABLE_ENTRY."""
        self.driver.must(Op.DELETE_FLOW_TABLE_ENTRY, table_id=table, flow_index=index, **self._of)

    def set_miss(self, table: int, miss: int | None) -> None:
        """Set the table for packets without a match; None for the default.

        Raises DriverCommandError if refused.
        """
        self.driver.must(
            Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=1,
            flow_table_context=miss_fields(miss), **self._of,
        )  # fmt: skip

    def set_root(self, table: int) -> None:
        """Run SET_FLOW_TABLE_ROOT."""
        self.driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table, **self._of)

    def disconnect(self) -> None:
        """Remove the root."""
        self.driver.must(Op.SET_FLOW_TABLE_ROOT, op_mod=1, **self._of)

    def query_entry(self, table: int, index: int, room: int = 8) -> tuple[Any, list[object]]:
        """Return the flow_context and the 8-byte items of its lists, up to ``room``.

        Raises DriverCommandError for no entry.
        """
        answer = self.driver.must(
            Op.QUERY_FLOW_TABLE_ENTRY, table_id=table, flow_index=index, out_extra=8 * room,
            **self._type,
        )  # fmt: skip
        context = answer.out.flow_context
        expect(type(context) is flow_context, "another structure than a flow context")
        listed = context.destination_list_size + context.flow_counter_list_size
        return context, [context.destination[n] for n in range(min(listed, room))]

    def context(self, *actions: bytes) -> int:
        """Create a modify header context of these actions; return its number."""
        fields = {**context_fields(*actions), **self._type}
        return int(self.driver.must(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields).modify_header_id)

    def counter(self) -> int:
        """Create a flow counter; return its number."""
        return int(self.driver.must(Op.ALLOC_FLOW_COUNTER).flow_counter_id)

    def query_counter(self, number: int) -> tuple[int, int]:
        """Return packets and bytes of a flow counter.

        The counter is not cleared. Raises DriverCommandError for an unknown one.
        """
        answer = self.driver.must(
            Op.QUERY_FLOW_COUNTER, out_extra=traffic_counter.size, flow_counter_id=number
        )
        (statistics,) = answer.flow_statistics
        return statistics.packets, statistics.octets
