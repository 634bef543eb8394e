"""The subnet management agent of a port: its responses to SMPs, by MAD_IFC and at QP0.

Source: IBTA volume 1, 14.2.5 (attributes), 14.2.1 (directed routes); hw/mad.c. The fabric assigns
the LID and the other numbers of a port, so no attribute can be set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from emu.device.port.ib.endport import EndPort, end_port
from emu.device.port.ib.managed import SL_TO_VL, pkey_block
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
    smp,
)

CLASS_VERSION: Final = 1
GUIDS_OF_A_BLOCK: Final = 8
DATA_BYTES: Final = 64
EXTENDED_SPEEDS: Final = 1 << 31
"""Bit in the modifier of PortInfo: the manager supports extended speeds (14.2.5.6), as the agents
do."""
DIRECTED: Final = MgmtClass.SUBN_DIRECTED_ROUTE
CLASSES: Final = (MgmtClass.SUBN_LID_ROUTED, DIRECTED)

NodeT = TypeVar("NodeT")
Handler = Callable[[NodeT, "smp"], bytes | None]
"""Executes an SMP; returns the attribute's value, or None for an invalid request."""


def node_description(port: EndPort, _mad: smp) -> bytes | None:
    """Return NodeDescription."""
    return port.node_description


def node_info(port: EndPort, _mad: smp) -> bytes | None:
    """Return NodeInfo."""
    return port.node_info()


def guids(port: EndPort, mad: smp) -> bytes | None:
    """Return a block of the port's GUIDs, of which the first is set; None beyond the table."""
    if mad.attr_mod >= GID_TABLE_ENTRIES // GUIDS_OF_A_BLOCK:
        return None
    return bytes(guid_info.new(guid=[port.port_guid] + [0] * (GUIDS_OF_A_BLOCK - 1)))


def port_pkeys(port: EndPort, block: int) -> bytes | None:
    """Return a block of the P_Key table."""
    return pkey_block(port.pkeys, PKEY_TABLE_ENTRIES, block)


def pkey_block_of(mad: smp) -> int:
    """Return the block of the P_Key table that an SMP to a channel adapter names.

    A channel adapter ignores the port number above it, which switches use (14.2.5.7).
    """
    return mad.attr_mod & 0xFFFF


def _pkeys(port: EndPort, mad: smp) -> bytes | None:
    return port_pkeys(port, pkey_block_of(mad))


def sl_to_vl(_port: object, _mad: smp) -> bytes | None:
    """Return SLtoVLMappingTable."""
    return SL_TO_VL


def _port_info(port: EndPort, mad: smp) -> bytes | None:
    """Return PortInfo; port 0 of a channel adapter means the port that receives the SMP."""
    return port.port_info() if mad.attr_mod & ~EXTENDED_SPEEDS in (0, 1) else None


def extended_port_info(_port: EndPort, mad: smp) -> bytes | None:
    """Return NVIDIA's vendor attribute, which reports FDR10; no model supports FDR10."""
    return b"" if mad.attr_mod in (0, 1) else None


_ATTRIBUTES: Final[Mapping[int, Handler[EndPort]]] = {
    SmpAttr.NODE_DESC: node_description,
    SmpAttr.NODE_INFO: node_info,
    SmpAttr.GUID_INFO: guids,
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: _pkeys,
    SmpAttr.SL_TO_VL_TABLE: sl_to_vl,
    SmpAttr.EXTENDED_PORT_INFO: extended_port_info,
}


def answer(port: IbPort, data: bytes) -> bytes:
    """Return the response to a 256-byte SMP for a port that no subnet manager configures.

    No attribute can be set. The driver marks a directed route's return path.
    """
    return respond(_ATTRIBUTES, end_port(port), data)


def taken_at_qp0(data: bytes) -> bytes | None:
    """Return an SMP from the subnet, prepared for the agent; None if it is for QP0 itself.

    QP0 gets responses, and directed requests whose route does not end here (C14-9:3, C14-13:1). QP0
    also gets SMInfo, for a subnet manager there (hw/mad.c:process_mad also ignores SMInfo).
    """
    mad = smp.view(bytearray(data))
    is_request = mad.method in (Method.GET, Method.SET)
    if mad.mgmt_class not in CLASSES or not is_request or mad.attr_id == SmpAttr.SM_INFO:
        return None
    if mad.mgmt_class == DIRECTED and not turn_back(mad, port_num=1):
        return None
    return bytes(mad)


def is_smp(data: bytes) -> bool:
    """Return whether these bytes are an SMP."""
    return len(data) == MAD_BYTES and data[1] in CLASSES


def turn_back(mad: smp, port_num: int) -> bool:
    """Reverse a directed request received by a port; return whether its route ends here.

    False, without a change, for a response, a route that goes on, or a ``dr_dlid`` other than the
    permissive LID. On True the ingress port is in the return path and the direction bit is set.
    """
    at_end = 0 < mad.hop_cnt < DATA_BYTES and mad.hop_ptr == mad.hop_cnt
    if mad.status & DIRECTION or not at_end or mad.dr_dlid != PERMISSIVE_LID:
        return False
    note_return(mad, port_num)
    mad.status = DIRECTION
    return True


def note_return(mad: smp, port_num: int) -> None:
    """Write the ingress port of a directed request into its return path, in place."""
    path = bytearray(mad.return_path)
    path[mad.hop_ptr] = port_num
    mad.return_path = bytes(path)


def respond(
    handlers: Mapping[int, Handler[NodeT]],
    node: NodeT,
    data: bytes,
    settable: Collection[int] = (),
) -> bytes:
    """Return the response to a request; ``settable`` are the attributes that a Set may change.

    Never None. The status is BAD_VERSION, UNSUPPORTED_METHOD_ATTRIB without a handler for attribute
    and method, or INVALID_ATTRIB_VALUE if the handler returns None.
    """
    mad = smp.view(bytearray(data))
    mad.status = _act(handlers, node, mad, settable) | mad.status & DIRECTION
    mad.method = Method.GET | RESPONSE
    return bytes(mad)


def _act(
    handlers: Mapping[int, Handler[NodeT]], node: NodeT, mad: smp, settable: Collection[int]
) -> MadStatus:
    """Execute the SMP in place and return its status; on an error its data stay."""
    if (mad.base_version, mad.class_version) != (BASE_VERSION, CLASS_VERSION):
        return MadStatus.BAD_VERSION
    handler = handlers.get(mad.attr_id)
    may_set = mad.method == Method.SET and mad.attr_id in settable
    if handler is None or not (mad.method == Method.GET or may_set):
        return MadStatus.UNSUPPORTED_METHOD_ATTRIB
    value = handler(node, mad)
    if value is None:
        return MadStatus.INVALID_ATTRIB_VALUE
    mad.data = value.ljust(DATA_BYTES, b"\0")
    return MadStatus.SUCCESS
