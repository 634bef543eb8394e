"""SMP responses of simulated nodes, and the attributes that a manager may set (IBTA 14.2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.port.ib.endport import NODE_INFO_CLASS_VERSION, VENDOR_ID
from emu.device.port.ib.managed import ManagedPort
from emu.device.port.ib.managed_sma import (
    SETTABLE,
    arbitration_of,
    pkeys_of,
    port_info_of,
    sl_to_vl_of,
)
from emu.device.port.ib.port import GID_TABLE_ENTRIES, PKEY_TABLE_ENTRIES
from emu.device.port.ib.sma import EXTENDED_SPEEDS, GUIDS_OF_A_BLOCK, Handler, respond
from emu.server.net.ib.subnet.nodes import MULTICAST_LIDS, NO_PORT, Cables, SimNode, SwitchTables
from layouts.enums.vport import PortState
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import (
    BASE_VERSION,
    Method,
    SmpAttr,
    guid_info,
    linear_forw_table,
    mcast_forw_table,
    node_info,
    switch_info,
)

if TYPE_CHECKING:
    from layouts.wire.mads import smp

LIDS_OF_A_BLOCK: Final = 64
MLIDS_OF_A_BLOCK: Final = 32
PORTS_OF_A_MASK: Final = 16
_MLID_BLOCK: Final = 0x1FF
_POSITION_SHIFT: Final = 28
_SWITCH_FIELDS: Final = (
    "linear_fdb_top", "default_port", "default_mcast_primary", "default_mcast_not_primary",
    "life_time_value", "multicast_fdb_top",
)  # fmt: skip
"""Settable fields of SwitchInfo without side effects."""


class SmpRequest(NamedTuple):
    """An SMP at a node, and the port at which it arrived."""

    cables: Cables
    node: SimNode
    entry: int
    now: int
    """Time in ns."""


def may(request: SmpRequest, mad: smp) -> bool:
    """Return whether the M_Key of a request or a TrapRepress is right.

    A wrong key counts as a violation at the port; see ``ManagedPort.may``.
    """
    port = request.node.end(request.entry)
    return port.allows(mad.mkey, request.now, is_set=mad.method != Method.GET)


def answer(request: SmpRequest, data: bytes) -> bytes:
    """Return the node's response to a Get or Set whose M_Key the caller has checked.

    An unsupported attribute or method and an invalid value are answered with a status.
    """
    if request.node.is_switch:
        return respond(_SWITCH, request, data, _SETTABLE)
    return respond(_ADAPTER, request, data, SETTABLE)


def _node_description(request: SmpRequest, mad: smp) -> bytes:
    return request.node.description


def _node_info(request: SmpRequest, mad: smp) -> bytes:
    node, line = request.node, request.node.line
    info = node_info.new(
        base_version=BASE_VERSION, class_version=NODE_INFO_CLASS_VERSION, node_type=line.kind,
        num_ports=node.num_ports, sys_guid=line.system_guid, node_guid=line.guid,
        port_guid=node.port_guid(request.entry), partition_cap=PKEY_TABLE_ENTRIES,
        device_id=line.device_id, local_port_num=request.entry,
        vendor_id=line.vendor_id or VENDOR_ID,
    )  # fmt: skip
    return bytes(info)


def _guids(request: SmpRequest, mad: smp) -> bytes | None:
    """Return a block of GUIDs with the port's own first; None for an invalid block."""
    if mad.attr_mod >= GID_TABLE_ENTRIES // GUIDS_OF_A_BLOCK:
        return None
    first = request.node.port_guid(request.entry)
    return bytes(guid_info.new(guid=[first] + [0] * (GUIDS_OF_A_BLOCK - 1)))


def _port(request: SmpRequest, number: int) -> ManagedPort | None:
    """Return a port by number; None for a number above the node's ports.

    Number 0 of a channel adapter is the port that received the SMP.
    """
    node = request.node
    if number > node.num_ports:
        return None
    return node.ports[request.entry if not (number or node.is_switch) else number]


def _port_info(request: SmpRequest, mad: smp) -> bytes | None:
    """Return PortInfo of a port, after an optional Set; None for an invalid port or value.

    A Set updates link, peer and routes. The returned LocalPortNum is the port of arrival.
    """
    number = mad.attr_mod & ~EXTENDED_SPEEDS
    port = _port(request, number)
    if port is None:
        return None
    number = number if number or request.node.is_switch else request.entry
    is_end = not request.node.is_switch or number == 0
    port.info.local_port_num = request.entry  # the port of arrival, not the queried port
    before, was_disabled = port.info.port_state, port.is_disabled
    value = port_info_of(port, mad, is_end=is_end)
    if mad.method == Method.SET and value is not None:
        _follow(request, number, before, was_disabled)
    return value


def _follow(request: SmpRequest, number: int, before: int, was_disabled: bool) -> None:
    """Update link, peer and routes after a manager has set a port.

    A port set down takes its peer down and retrains; a switch's port 0 stays ACTIVE.
    """
    cables, node = request.cables, request.node
    port = node.ports[number]
    cables.generation += 1
    if node.is_switch and number == 0:
        port.info.port_state = PortState.ACTIVE  # port 0 has no link
    elif port.info.port_state == PortState.DOWN:
        if before != PortState.DOWN:
            cables.lose(node.number, number)
        if before != PortState.DOWN or was_disabled:
            cables.retrain(node.number, number)


def _pkeys(request: SmpRequest, mad: smp) -> bytes | None:
    """Return a block of P_Keys, after an optional Set; None for an invalid block or port.

    A switch's external ports are invalid: they enforce no partitions.
    """
    block, number = mad.attr_mod & 0xFFFF, mad.attr_mod >> 16
    if number and request.node.is_switch:
        return None
    port = _port(request, number)
    return None if port is None else pkeys_of(port, mad, block)


def _sl_to_vl(request: SmpRequest, mad: smp) -> bytes | None:
    """Return an SL-to-VL mapping, after an optional Set; None for an invalid port.

    A switch has a mapping for each input and output port.
    """
    entry, number = mad.attr_mod >> 8 & 0xFF, mad.attr_mod & 0xFF
    port = _port(request, number)
    if port is None or entry > request.node.num_ports:
        return None
    return sl_to_vl_of(port, mad, entry)


def _arbitration(request: SmpRequest, mad: smp) -> bytes | None:
    port = _port(request, mad.attr_mod & 0xFFFF)
    return None if port is None else arbitration_of(port, mad, mad.attr_mod >> 16)


def _tables(request: SmpRequest) -> SwitchTables:
    tables = request.node.tables
    assert tables is not None
    return tables


def _switch_info(request: SmpRequest, mad: smp) -> bytes | None:
    """Return SwitchInfo, after an optional Set; None for a LinearFDBTop above the capability.

    A set PortStateChange bit clears that bit.
    """
    info = _tables(request).info
    if mad.method == Method.SET:
        given = switch_info.view(mad.data)
        if given.linear_fdb_top > info.linear_fdb_cap:
            return None
        for name in _SWITCH_FIELDS:
            setattr(info, name, getattr(given, name))
        if given.port_state_change:
            info.port_state_change = 0
        request.cables.generation += 1
    return bytes(info)


def _linear(request: SmpRequest, mad: smp) -> bytes | None:
    """Return a block of 64 LIDs of the linear forwarding table, after an optional Set (14.2.5.10).

    None for a block above the unicast LIDs. LIDs that were never set have NO_PORT.
    """
    first = mad.attr_mod * LIDS_OF_A_BLOCK
    if first >= MULTICAST_LID:
        return None
    table = _tables(request).linear
    if mad.method == Method.SET:
        table.extend(bytes((NO_PORT,)) * (first + LIDS_OF_A_BLOCK - len(table)))
        table[first : first + LIDS_OF_A_BLOCK] = bytes(linear_forw_table.view(mad.data))
        request.cables.generation += 1
    block = bytes(table[first : first + LIDS_OF_A_BLOCK])
    return block.ljust(LIDS_OF_A_BLOCK, bytes((NO_PORT,)))


def _multicast(request: SmpRequest, mad: smp) -> bytes | None:
    """Return 32 multicast LIDs' masks for 16 ports, after an optional Set (14.2.5.12).

    None for a block above MULTICAST_LIDS or for ports that the switch lacks.
    """
    first = (mad.attr_mod & _MLID_BLOCK) * MLIDS_OF_A_BLOCK
    shift = (mad.attr_mod >> _POSITION_SHIFT) * PORTS_OF_A_MASK
    if first >= MULTICAST_LIDS or shift > request.node.num_ports:
        return None
    masks, part = _tables(request).multicast, (1 << PORTS_OF_A_MASK) - 1
    if mad.method == Method.SET:
        for at, given in enumerate(mcast_forw_table.view(mad.data).port_mask, first):
            if mask := masks.get(at, 0) & ~(part << shift) | given << shift:
                masks[at] = mask
            else:
                masks.pop(at, None)
        request.cables.generation += 1
    block = [masks.get(at, 0) >> shift & part for at in range(first, first + MLIDS_OF_A_BLOCK)]
    return bytes(mcast_forw_table.new(port_mask=block))


def _extended_port_info(request: SmpRequest, mad: smp) -> bytes:
    """Return NVIDIA's own attribute without content: no link runs at FDR10."""
    return b""


_ADAPTER: Final[Mapping[int, Handler[SmpRequest]]] = {
    SmpAttr.NODE_DESC: _node_description,
    SmpAttr.NODE_INFO: _node_info,
    SmpAttr.GUID_INFO: _guids,
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: _pkeys,
    SmpAttr.SL_TO_VL_TABLE: _sl_to_vl,
    SmpAttr.VL_ARB_TABLE: _arbitration,
    SmpAttr.EXTENDED_PORT_INFO: _extended_port_info,
}
_SWITCH: Final[Mapping[int, Handler[SmpRequest]]] = {
    **_ADAPTER,
    SmpAttr.SWITCH_INFO: _switch_info,
    SmpAttr.LINEAR_FORW_TABLE: _linear,
    SmpAttr.MCAST_FORW_TABLE: _multicast,
}
_SETTABLE: Final = SETTABLE | {
    SmpAttr.SWITCH_INFO, SmpAttr.LINEAR_FORW_TABLE, SmpAttr.MCAST_FORW_TABLE,
}  # fmt: skip
"""Settable attributes of a switch."""
