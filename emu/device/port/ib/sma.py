"""The subnet management agent of a port: what it answers to SMPs, by MAD_IFC and at QP0.

Source: IBTA volume 1, 14.2.5 (attributes), 14.2.1 (directed routes); hw/mad.c. The fabric assigns
the LID and the other numbers of a port, so nothing can be set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from emu.device.port.ib.endport import EndPort, end_port
from emu.device.port.ib.port import GID_TABLE_ENTRIES, PKEY_TABLE_ENTRIES, IbPort
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import (
    BASE_VERSION,
    DIRECTION,
    MAD_BYTES,
    RESPONSE,
    MadStatus,
    Method,
    MgmtClass,
    SmpAttr,
    guid_info,
    pkey_table,
    smp,
)

if TYPE_CHECKING:
    from layouts.wire.mads import Smp

CLASS_VERSION: Final = 1
PKEYS_OF_A_BLOCK: Final = 32
GUIDS_OF_A_BLOCK: Final = 8
DATA_BYTES: Final = 64
DIRECTED: Final = MgmtClass.SUBN_DIRECTED_ROUTE
CLASSES: Final = (MgmtClass.SUBN_LID_ROUTED, DIRECTED)
_VLS: Final = 8
_SLS: Final = 16

NodeT = TypeVar("NodeT")
Attributes = Mapping[int, Callable[[NodeT, int], bytes | None]]
"""The function that builds each attribute; it returns None for an invalid modifier."""


def node_description(port: EndPort, attr_mod: int) -> bytes | None:
    """NodeDescription."""
    return port.node_description


def node_info(port: EndPort, attr_mod: int) -> bytes | None:
    """NodeInfo."""
    return port.node_info()


def guids(port: EndPort, block: int) -> bytes | None:
    """The port's GUIDs: there is only one."""
    if block >= GID_TABLE_ENTRIES // GUIDS_OF_A_BLOCK:
        return None
    return bytes(guid_info.new(guid=[port.port_guid] + [0] * (GUIDS_OF_A_BLOCK - 1)))


def port_pkeys(port: EndPort, block: int) -> bytes | None:
    """A block of the P_Key table."""
    if block >= PKEY_TABLE_ENTRIES // PKEYS_OF_A_BLOCK:
        return None
    first = block * PKEYS_OF_A_BLOCK
    pkeys = list(port.pkeys[first : first + PKEYS_OF_A_BLOCK])
    return bytes(pkey_table.new(pkey=pkeys + [0] * (PKEYS_OF_A_BLOCK - len(pkeys))))


def sl_to_vl(_port: object, attr_mod: int) -> bytes | None:
    """SLtoVLMappingTable, four bits for each service level: they share the lanes in turn."""
    return bytes(sl % _VLS << 4 | (sl + 1) % _VLS for sl in range(0, _SLS, 2))


def _port_info(port: EndPort, port_num: int) -> bytes | None:
    """PortInfo; port 0 of a channel adapter means the port that receives the SMP."""
    return port.port_info() if port_num in (0, 1) else None


def _extended_port_info(port: EndPort, port_num: int) -> bytes | None:
    """NVIDIA's own attribute: whether the link runs at FDR10, which no model does."""
    return b"" if port_num in (0, 1) else None


_ATTRIBUTES: Final[Attributes[EndPort]] = {
    SmpAttr.NODE_DESC: node_description,
    SmpAttr.NODE_INFO: node_info,
    SmpAttr.GUID_INFO: guids,
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: port_pkeys,
    SmpAttr.SL_TO_VL_TABLE: sl_to_vl,
    SmpAttr.EXTENDED_PORT_INFO: _extended_port_info,
}


def answer(port: IbPort, data: bytes) -> bytes:
    """The response to an SMP of 256 bytes. The driver marks a directed route's return path."""
    return respond(_ATTRIBUTES, end_port(port), data)


def taken_at_qp0(data: bytes) -> bytes | None:
    """An SMP from the subnet as the agent answers it; None when it is for QP0.

    The port is the end of a directed route (C14-9:3, C14-13:1). QP0 gets SMInfo, which is for a
    subnet manager there (hw/mad.c:process_mad leaves it alone as well), and responses.
    """
    mad = smp.view(bytearray(data))
    is_request = mad.method in (Method.GET, Method.SET)
    if mad.mgmt_class not in CLASSES or not is_request or mad.attr_id == SmpAttr.SM_INFO:
        return None
    if mad.mgmt_class == DIRECTED and not arrived(mad, port_num=1):
        return None
    return bytes(mad)


def is_smp(data: bytes) -> bool:
    """Whether these bytes are an SMP."""
    return len(data) == MAD_BYTES and data[1] in CLASSES


def arrived(mad: Smp, port_num: int) -> bool:
    """Turn a directed request that has come in by a port; False unless its route ends here."""
    at_end = 0 < mad.hop_cnt < DATA_BYTES and mad.hop_ptr == mad.hop_cnt
    if mad.status & DIRECTION or not at_end or mad.dr_dlid != PERMISSIVE_LID:
        return False
    note_return(mad, port_num)
    mad.status = DIRECTION
    return True


def note_return(mad: Smp, port_num: int) -> None:
    """Write the port that a directed request has come in by into its return path."""
    path = bytearray(mad.return_path)
    path[mad.hop_ptr] = port_num
    mad.return_path = bytes(path)


def respond(attributes: Attributes[NodeT], node: NodeT, data: bytes) -> bytes:
    """The response to a request, from an agent with these attributes."""
    mad = smp.view(bytearray(data))
    mad.status = _act(attributes, node, mad) | mad.status & DIRECTION
    mad.method = Method.GET | RESPONSE
    return bytes(mad)


def _act(attributes: Attributes[NodeT], node: NodeT, mad: Smp) -> MadStatus:
    """Do what the SMP asks for, in place."""
    if (mad.base_version, mad.class_version) != (BASE_VERSION, CLASS_VERSION):
        return MadStatus.BAD_VERSION
    fill = attributes.get(mad.attr_id)
    if fill is None or mad.method != Method.GET:
        return MadStatus.UNSUPPORTED_METHOD_ATTRIB
    value = fill(node, mad.attr_mod)
    if value is None:
        return MadStatus.INVALID_ATTRIB_VALUE
    mad.data = value.ljust(DATA_BYTES, b"\0")
    return MadStatus.SUCCESS
