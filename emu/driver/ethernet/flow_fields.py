"""Fields of the steering commands: matches, destinations, actions (core/fs_cmd.c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emu.driver.command.driver import Fields
from layouts.enums.flow_table import TableMissAction
from layouts.enums.fte import FlowAction, FlowDestination, FlowSource
from layouts.enums.modify_header import ModifyAction
from layouts.steering.flow_match import fte_match_param
from layouts.steering.fte import dest_format_struct, extended_dest_format, flow_counter_list
from layouts.steering.modify_header import add_action_in, copy_action_in, set_action_in

OUTER, INNER = 1, 4


def match(inner: Mapping[str, int] | None = None, **outer: int) -> bytes:
    """Return an fte_match_param with these fields of the outer and the inner headers.

    IP addresses are numbers of 128 bits, also for IPv4. All other fields are 0.
    """
    param = fte_match_param.new()
    for headers, fields in ((param.outer_headers, outer), (param.inner_headers, inner or {})):
        for name, value in fields.items():
            wide = name in ("src_ipv4_src_ipv6", "dst_ipv4_dst_ipv6")
            setattr(headers, name, value.to_bytes(16, "big") if wide else value)
    return bytes(param)


def match_misc(registers: Mapping[int, int] | None = None, **misc: int) -> bytes:
    """Return an fte_match_param with these registers C, by number, and these misc_parameters."""
    param = fte_match_param.new()
    for name, value in misc.items():
        setattr(param.misc_parameters, name, value)
    for number, value in (registers or {}).items():
        setattr(param.misc_parameters_2, f"metadata_reg_c_{number}", value)
    return bytes(param)


def mac_fields(mac: bytes) -> dict[str, int]:
    """Return a MAC address as the two fields of a match."""
    number = int.from_bytes(mac, "big")
    return {"dmac_47_16": number >> 16, "dmac_15_0": number & 0xFFFF}


def to_tir(number: int) -> bytes:
    """Return an entry's destination: a TIR."""
    return bytes(
        dest_format_struct.new(destination_type=FlowDestination.TIR, destination_id=number)
    )


def to_table(number: int) -> bytes:
    """Return an entry's destination: a flow table."""
    return bytes(
        dest_format_struct.new(destination_type=FlowDestination.FLOW_TABLE, destination_id=number)
    )


def to_vport(number: int, vhca: int | None = None) -> bytes:
    """Return a switch entry's destination: a vPort; ``vhca`` is the id of the switch's manager."""
    return bytes(
        dest_format_struct.new(
            destination_type=FlowDestination.VPORT, destination_id=number,
            destination_eswitch_owner_vhca_id_valid=int(vhca is not None),
            destination_eswitch_owner_vhca_id=vhca or 0,
        )
    )  # fmt: skip


def with_reformat(to: bytes, number: int | None) -> bytes:
    """Return a destination with its own packet reformat context, or with none.

    The entry needs extended_destination.
    """
    given = dest_format_struct.view(bytearray(to))
    given.packet_reformat = int(number is not None)
    return bytes(
        extended_dest_format.new(destination_entry=bytes(given), packet_reformat_id=number or 0)
    )


def reformat_fields(
    kind: int, data: bytes = b"", size: int | None = None, param_0: int = 1, param_1: int = 0
) -> Fields:
    """Return the input of ALLOC_PACKET_REFORMAT_CONTEXT; ``param_1`` is relative to ``param_0``.

    ``size`` replaces the length of ``data``.
    """
    context = {
        "reformat_type": kind, "reformat_data_size": len(data) if size is None else size,
        "reformat_param_0": param_0, "reformat_param_1": param_1,
        "reformat_data": data[:2].ljust(2, b"\0"),
    }  # fmt: skip
    return {"packet_reformat_context": context, "extra": data[2:]}


def miss_fields(miss: int | None) -> Fields:
    """Return the fields of a table's miss: a table's number, or None for the default."""
    if miss is None:
        return {"table_miss_action": TableMissAction.DEF}
    return {"table_miss_action": TableMissAction.FWD, "table_miss_id": miss}


def table_fields(
    level: int, log_size: int = 4, miss: int | None = None, **context: object
) -> Fields:
    """Return the input of CREATE_FLOW_TABLE."""
    fields = {"level": level, "log_size": log_size, **miss_fields(miss), **context}
    return {"flow_table_context": fields}


def group_fields(
    table: int, first: int, last: int, enable: int | None = None,
    match_criteria: bytes | None = None, inner: Mapping[str, int] | None = None, **masks: int,
) -> Fields:  # fmt: skip
    """Return the input of CREATE_FLOW_GROUP; ``masks`` are of fields of the outer headers.

    By default match_criteria_enable has the bits of the outer and inner headers that have masks.
    ``match_criteria`` replaces the masks.
    """
    used = (OUTER if masks else 0) | (INNER if inner else 0)
    return {
        "table_id": table, "start_flow_index": first, "end_flow_index": last,
        "match_criteria_enable": used if enable is None else enable,
        "match_criteria": match_criteria or match(inner, **masks),
    }  # fmt: skip


def entry_fields(
    table: int, index: int, group: int, *destinations: bytes, action: FlowAction | None = None,
    tag: int = 0, counters: Sequence[int] = (), modify: int = 0, value: bytes | None = None,
    source: int = FlowSource.ANY, inner: Mapping[str, int] | None = None,
    also: FlowAction | None = None, beside: Fields | None = None, **values: int,
) -> Fields:  # fmt: skip
    """Return the input of SET_FLOW_TABLE_ENTRY; without an action the entry forwards.

    ``counters`` and ``modify`` are numbers. ``values`` are of fields of the outer headers, unless
    there is a whole ``value``. ``also`` are more actions, with fields ``beside``.

    Counters and a modify header context also set COUNT and MOD_HDR. Lists get long items if the
    first destination is long.
    """
    if action is None:
        action = FlowAction.FWD_DEST
    if also:
        action |= also
    if counters:
        action |= FlowAction.COUNT
    if modify:
        action |= FlowAction.MOD_HDR
    context = {
        "group_id": group, "flow_tag": tag, "action": action,
        "destination_list_size": len(destinations), "flow_counter_list_size": len(counters),
        "match_value": value or match(inner, **values), "modify_header_id": modify,
        "flow_source": source, **(beside or {}),
    }  # fmt: skip
    size = (
        extended_dest_format if destinations and len(destinations[0]) > 8 else flow_counter_list
    ).size
    listed = [
        bytes(flow_counter_list.new(flow_counter_id=number)).ljust(size, b"\0")
        for number in counters
    ]
    extra = b"".join((*destinations, *listed))
    return {"table_id": table, "flow_index": index, "flow_context": context, "extra": extra}


def set_field(field: int, data: int, length: int, offset: int = 0) -> bytes:
    """Return an action that sets ``length`` bits of a field, from bit ``offset`` on."""
    return bytes(
        set_action_in.new(
            action_type=ModifyAction.SET, field=field, offset=offset, length=length % 32, data=data
        )
    )


def add_to_field(field: int, data: int) -> bytes:
    """Return an action that adds to a field."""
    return bytes(add_action_in.new(action_type=ModifyAction.ADD, field=field, data=data))


def copy_field(
    source: int, target: int, length: int, source_offset: int = 0, offset: int = 0
) -> bytes:
    """Return an action that copies ``length`` bits of a field to another one."""
    return bytes(
        copy_action_in.new(
            action_type=ModifyAction.COPY, src_field=source, src_offset=source_offset,
            dst_field=target, dst_offset=offset, length=length % 32,
        )
    )  # fmt: skip


def context_fields(*actions: bytes, number: int | None = None) -> Fields:
    """Return the input of ALLOC_MODIFY_HEADER_CONTEXT.

    ``number`` replaces the number of actions in the command, which may then be wrong.
    """
    number = len(actions) if number is None else number
    return {"num_of_actions": number, "extra": b"".join(actions)}
