"""SMPs for a function's own port, and the events that notify its driver of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.events import eq as eq_engine
from emu.device.port.ib import managed_sma, sma
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.vport import PortState
from layouts.rings.eqe import eqe_port_state
from layouts.wire.mads import Method, SmpAttr, port_info, smp

if TYPE_CHECKING:
    from emu.device.port.ib.port import IbPort
    from emu.device.state.hca import Hca

_Seen = tuple[PortState, tuple[int, int, int], tuple[int, ...]]
_STATES: Final = {
    PortState.DOWN: PortChange.DOWN,
    PortState.INIT: PortChange.INITIALIZED,
    PortState.ACTIVE: PortChange.ACTIVE,
}


def answer(hca: Hca, data: bytes, slid: int, *, checks_mkey: bool = True) -> bytes | None:
    """Apply an SMP to the function's port; return the response, None for none.

    None for a wrong M_Key, which is reported to the subnet manager, and for TrapRepress. A change
    of the port is reported to its driver (``follow``). ``slid`` is the LID of the SMP's sender.
    Without ``checks_mkey``, for the driver's own SMPs, any M_Key is accepted. A port without
    management only answers.
    """
    port = hca.ib
    if port.managed is None:
        return sma.answer(port, data)
    before = _seen(port)
    answered = managed_sma.answer(port, data, slid, hca.clock.now_ns(), checks_mkey=checks_mkey)
    follow(hca, before, reregister=answered is not None and _asks_to_reregister(data))
    return answered


def _seen(port: IbPort) -> _Seen:
    return port.state, (port.lid, port.sm_lid, port.gid_prefix), port.pkeys


def follow(hca: Hca, before: _Seen, *, reregister: bool = False) -> None:
    """Raise PORT_CHANGE for each change of the port since ``before``, and notify the wire.

    Changes are of LID or SM LID, GID prefix, P_Keys and state; ``reregister`` adds CLIENT_REREG.
    Without a change nothing happens.
    """
    state, addresses, pkeys = before
    port = hca.ib
    changes = []
    if addresses != (port.lid, port.sm_lid, port.gid_prefix):
        changes.append(PortChange.LID)
    if addresses[2] != port.gid_prefix:
        changes.append(PortChange.GUID)
    if pkeys != port.pkeys:
        changes.append(PortChange.PKEY)
    if state is not port.state and port.state in _STATES:
        changes.append(_STATES[port.state])
    if reregister:
        changes.append(PortChange.CLIENT_REREG)
    for change in changes:
        data = eqe_port_state.new(port={"port_num": 1})
        eq_engine.raise_event(hca.events, EventType.PORT_CHANGE, bytes(data), change)
    if changes:
        hca.wire.port_changed(hca)


def _asks_to_reregister(data: bytes) -> bool:
    """Return whether an SMP is Set(PortInfo) with client_reregister."""
    mad = smp.view(data)
    if (mad.method, mad.attr_id) != (Method.SET, SmpAttr.PORT_INFO):
        return False
    return bool(port_info.view(mad.data).client_reregister)
