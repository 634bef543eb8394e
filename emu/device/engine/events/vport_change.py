"""Event of a vPort's changed context, at the manager of its switch (PRM "NIC_VPORT_CHANGE").

Source: core/eswitch.c: esw_vport_change_handle_locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from emu.device.port.eth.vport import NicVport, VportChange
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_vport_change

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca


def reported(vport: NicVport) -> dict[VportChange, object]:
    """Return the state that the manager can be notified of, by the kind of change."""
    return {
        VportChange.UC_ADDRESS: vport.uc_list,
        VportChange.MC_ADDRESS: vport.mc_list,
        VportChange.VLAN: vport.vlan_list,
        VportChange.PROMISC: (vport.promisc_uc, vport.promisc_mc, vport.promisc_all),
        VportChange.MTU: vport.mtu,
    }


def report(vport: NicVport, vhca: Vhca[Hca], before: dict[VportChange, object]) -> None:
    """Raise NIC_VPORT_CHANGE at the manager if a change of the context is armed.

    ``before`` is the state before the change. Without its arming a change waits for that.
    """
    for change, state in reported(vport).items():
        if state != before[change]:
            vport.unreported |= change
    raise_armed(vport, vhca)


def raise_armed(vport: NicVport, vhca: Vhca[Hca]) -> None:
    """Raise NIC_VPORT_CHANGE for armed changes since the last event.

    The event disarms: the manager then queries the context and arms again. A change between query
    and arming raises the next event at once, otherwise it would be lost.
    """
    if not vport.armed & vport.unreported:
        return
    vport.armed = vport.unreported = 0
    manager = vhca.adapter.manager.node
    if manager is not None:
        event = eqe_vport_change.new(vport_num=vhca.vport_number)
        eq_engine.raise_event(manager.events, EventType.NIC_VPORT_CHANGE, bytes(event))


def driver_ended(vport: NicVport, vhca: Vhca[Hca]) -> None:
    """Drop the addresses and modes of a function's driver, and report that to the manager.

    The vPort of a manager keeps them until its driver replaces them.
    """
    before = reported(vport)
    vport.forget_driver()
    report(vport, vhca, before)
