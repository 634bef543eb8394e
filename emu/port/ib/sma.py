"""The port's subnet management agent, as far as a driver that uses MAD_IFC needs it.

Source: IBTA volume 1, 14.2.5 (attributes), 14.2.1 (directed routes); hw/mad.c. The fabric assigns
the LID and the other numbers of a port, so nothing can be set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.port.ib.endport import end_port
from emu.port.ib.port import PKEY_TABLE_ENTRIES, IbPort
from layouts.mads import (
    BASE_VERSION,
    RESPONSE,
    MadStatus,
    Method,
    SmpAttr,
    guid_info,
    pkey_table,
    smp,
)

CLASS_VERSION = 1
PKEYS_OF_A_BLOCK = 32
DATA_BYTES = 64


def _node_description(port: IbPort, attr_mod: int) -> bytes | None:
    return port.node_description


def _node_info(port: IbPort, attr_mod: int) -> bytes | None:
    return end_port(port).node_info()


def _guid_info(port: IbPort, block: int) -> bytes | None:
    """The port's GUIDs: there is only one."""
    return bytes(guid_info.new(guid=[port.guid] + [0] * 7)) if block == 0 else None


def _port_info(port: IbPort, port_num: int) -> bytes | None:
    """PortInfo; port 0 of a channel adapter means the port that receives the SMP."""
    return end_port(port).port_info() if port_num in (0, 1) else None


def _pkey_table(port: IbPort, block: int) -> bytes | None:
    if block >= PKEY_TABLE_ENTRIES // PKEYS_OF_A_BLOCK:
        return None
    first = block * PKEYS_OF_A_BLOCK
    pkeys = [port.pkey(index) for index in range(first, first + PKEYS_OF_A_BLOCK)]
    return bytes(pkey_table.new(pkey=pkeys))


def _extended_port_info(port: IbPort, port_num: int) -> bytes | None:
    """NVIDIA's own attribute: whether the link runs at FDR10, which no model does."""
    return b"" if port_num in (0, 1) else None


_ATTRIBUTES: dict[int, Callable[[IbPort, int], bytes | None]] = {
    SmpAttr.NODE_DESC: _node_description,
    SmpAttr.NODE_INFO: _node_info,
    SmpAttr.GUID_INFO: _guid_info,
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: _pkey_table,
    SmpAttr.EXTENDED_PORT_INFO: _extended_port_info,
}
"""The function that builds each attribute; it returns None for an invalid modifier."""


def answer(port: IbPort, data: bytes) -> bytes:
    """The response to an SMP of 256 bytes. The driver marks a directed route's return path."""
    mad = smp.view(bytearray(data))
    mad.status = _act(port, mad)
    mad.method = Method.GET | RESPONSE
    return bytes(mad)


def _act(port: IbPort, mad: Any) -> MadStatus:
    """Do what the SMP asks for, in place."""
    if (mad.base_version, mad.class_version) != (BASE_VERSION, CLASS_VERSION):
        return MadStatus.BAD_VERSION
    fill = _ATTRIBUTES.get(mad.attr_id)
    if fill is None or mad.method != Method.GET:
        return MadStatus.UNSUPPORTED_METHOD_ATTRIB
    value = fill(port, mad.attr_mod)
    if value is None:
        return MadStatus.INVALID_ATTRIB_VALUE
    mad.data = value.ljust(DATA_BYTES, b"\0")
    return MadStatus.SUCCESS
