"""The agent of a port that a subnet manager configures: SMPs that get, and that set.

Source: IBTA volume 1, 14.2.4 (M_Key), 14.2.5 (attributes). ``sma`` is the agent of ports that the
fabric configures itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emu.device.port.ib import sma
from emu.device.port.ib.endport import EndPort, end_port
from emu.device.port.ib.managed import (
    ARBITRATION_BLOCKS,
    KEPT,
    SL_TO_VL,
    SL_TO_VL_BYTES,
    ManagedPort,
)
from emu.device.port.ib.port import PKEY_TABLE_ENTRIES, IbPort
from emu.device.port.ib.sma import Handler
from layouts.enums.vport import CapMask1
from layouts.wire.mads import Method, SmpAttr, port_info, smp

SETTABLE: Final = frozenset(
    {SmpAttr.PORT_INFO, SmpAttr.PKEY_TABLE, SmpAttr.SL_TO_VL_TABLE, SmpAttr.VL_ARB_TABLE}
)
"""Attributes of a port that a manager may set."""

_ENABLED: Final = ("link_width_enabled", "link_speed_enabled", "link_speed_ext_enabled")


def port_info_of(port: ManagedPort, mad: smp, *, is_end: bool = True) -> bytes | None:
    """Return PortInfo after a Get or Set; None for a Set that is refused, without a change.

    A Set's ClientReregister is echoed in the response and not stored.
    """
    if mad.method != Method.SET:
        return port.info_for(mad.mkey)
    given = port_info.view(mad.data)
    if port.set_info(given, is_end=is_end):
        return None
    shown = port_info.view(bytearray(port.info_for(port.info.mkey)))
    shown.client_reregister = given.client_reregister
    return bytes(shown)


def pkeys_of(port: ManagedPort, mad: smp, block: int) -> bytes | None:
    """Return a block of the P_Key table, after an optional Set; None beyond the table's end."""
    if mad.method == Method.SET and not port.set_pkeys(block, mad.data):
        return None
    return port.pkey_block(block)


def sl_to_vl_of(port: ManagedPort, mad: smp, entry: int) -> bytes:
    """Return SLtoVLMappingTable from ingress port ``entry`` to this port, after an optional Set.

    SL_TO_VL before the first Set.
    """
    if mad.method == Method.SET:
        port.sl_to_vl[entry] = mad.data[:SL_TO_VL_BYTES]
    return port.sl_to_vl.get(entry, SL_TO_VL)


def arbitration_of(port: ManagedPort, mad: smp, block: int) -> bytes | None:
    """Return a block of VLArbitrationTable, after an optional Set; None for an unknown block.

    Empty (zeros in the response) before the first Set.
    """
    if block not in ARBITRATION_BLOCKS:
        return None
    if mad.method == Method.SET:
        port.arbitration[block] = mad.data
    return port.arbitration.get(block, b"")


def refreshed(port: IbPort) -> ManagedPort:
    """Return the record of a function's port, updated with the port's own current values.

    The manager's fields (KEPT), enabled widths and enabled speeds stay; key violation counters are
    the port's. The port must have a record.
    """
    managed = port.managed
    assert managed is not None
    now = port_info.view(bytearray(end_port(port).port_info()))
    for name in (*KEPT, *_ENABLED):
        if name not in ("pkey_violations", "qkey_violations"):
            setattr(now, name, getattr(managed.info, name))
    managed.info = now
    return managed


def _port_info(port: IbPort, mad: smp) -> bytes | None:
    """Return PortInfo after a Get or Set; None for a refused Set and for a port above 1.

    Port 0 of a channel adapter means the port that receives the SMP.
    """
    number = mad.attr_mod & ~sma.EXTENDED_SPEEDS
    return port_info_of(refreshed(port), mad) if number in (0, 1) else None


def _fixed(fill: Handler[EndPort]) -> Handler[IbPort]:
    return lambda port, mad: fill(end_port(port), mad)


_HANDLERS: Final[Mapping[int, Handler[IbPort]]] = {
    SmpAttr.NODE_DESC: _fixed(sma.node_description),
    SmpAttr.NODE_INFO: _fixed(sma.node_info),
    SmpAttr.GUID_INFO: _fixed(sma.guids),
    SmpAttr.EXTENDED_PORT_INFO: _fixed(sma.extended_port_info),
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: lambda port, mad: pkeys_of(refreshed(port), mad, sma.pkey_block_of(mad)),
    SmpAttr.SL_TO_VL_TABLE: lambda port, mad: sl_to_vl_of(refreshed(port), mad, 0),
    SmpAttr.VL_ARB_TABLE: lambda port, mad: arbitration_of(
        refreshed(port), mad, mad.attr_mod >> 16
    ),
}


def begin(port: IbPort) -> None:
    """Hand the port over to a subnet manager: no LID, and state INIT or DOWN until it sets them.

    Packets cannot be sent or received before the manager activates the port.
    """
    port.cap_mask1 |= CapMask1.CAP_MASK_NOTICE_SUP | CapMask1.OTHER_LOCAL_CHANGES_SUP
    info = port_info.view(bytearray(end_port(port).port_info()))
    info.assign({"lid": 0, "sm_lid": 0, "port_state": 1})
    managed = ManagedPort(info, port.pkeys, PKEY_TABLE_ENTRIES)
    managed.connect(has_link=port.has_link)
    port.settle(managed)


def answer(
    port: IbPort, data: bytes, slid: int, now: int, *, checks_mkey: bool = True
) -> bytes | None:
    """Apply an SMP to a function's port and return the response, or None.

    None for a wrong M_Key, which is counted and reported to the manager by ``on_bad_mkey`` (IBTA
    14.2.4.1). None also for a TrapRepress, which ``on_repress`` gets. ``slid`` is the SMP's source
    LID, ``now`` in ns. Without ``checks_mkey`` any M_Key is accepted, is no violation and renews no
    lease.
    """
    mad = smp.view(data)
    managed = refreshed(port)
    is_set = mad.method != Method.GET
    if checks_mkey and not managed.allows(mad.mkey, now, is_set=is_set):
        managed.on_bad_mkey(mad, slid)
        return None
    if mad.method == Method.TRAP_REPRESS:
        managed.on_repress(mad.tid)
        return None
    answered = sma.respond(_HANDLERS, port, data, SETTABLE)
    port.settle(managed)
    return answered
