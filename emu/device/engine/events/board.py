"""Board events for the driver: cable plugged or unplugged, slot power, temperature.

Of an adapter's functions only the manager has the cable and the slot. Its driver gets both events
when it creates an event queue for them. The kernel log of every boot then has a line about each.

Source: PRM "Port module event", "Temperature warning event"; core/events.c.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.eq import raise_event
from emu.device.objects.queues.eq import Eq
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_port_module, eqe_temp_warning

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter
    from emu.device.port.base import Port
    from emu.device.state.hca import Hca

PCI_POWER_CHANGE: Final = 5
"""sub_type of a GENERAL_EVENT (device.h: MLX5_GENERAL_SUBTYPE_PCI_POWER_CHANGE_EVENT)."""
_ASIC: Final = 1 << 0
"""eqe_temp_warning: the chip's own sensor."""


class ModuleStatus(IntEnum):
    """eqe_port_module.module_status (core/lib/events.h: port_module_event_status_type)."""

    PLUGGED = 1
    UNPLUGGED = 2
    ERROR = 3
    DISABLED = 4


def report_board_state(hca: Hca, eq: Eq) -> None:
    """Report cable and slot power to a new event queue, by the events that it subscribes to.

    Raise PORT_MODULE_EVENT and GENERAL_EVENT (PCI power change). Virtual functions and
    sub-functions lack the capabilities and get neither.
    """
    if eq.events >> EventType.PORT_MODULE_EVENT & 1:
        raise_module_event(hca)
    if eq.events >> EventType.GENERAL_EVENT & 1 and hca.caps.general.mcam_reg:
        raise_event(hca.events, EventType.GENERAL_EVENT, b"", PCI_POWER_CHANGE)


def module_status(port: Port) -> ModuleStatus:
    """Return the state of the port's module, for events and PMAOS."""
    return ModuleStatus.PLUGGED if port.has_cable else ModuleStatus.UNPLUGGED


def raise_module_event(hca: Hca) -> None:
    """Raise PORT_MODULE_EVENT with the module's status; do nothing without port_module_event."""
    if not hca.caps.general.port_module_event:
        return
    data = eqe_port_module.new(module=0, module_status=module_status(hca.port))
    raise_event(hca.events, EventType.PORT_MODULE_EVENT, bytes(data))


def warm(adapter: Adapter[Hca], temperature: int) -> None:
    """Set the chip's temperature in units of MTMP.

    When it reaches the threshold from below, raise TEMP_WARN_EVENT at each function of this adapter
    with temp_warn_event.
    """
    if not adapter.board.asic.measure(temperature):
        return
    data = bytes(eqe_temp_warning.new(sensor_warning_lsb=_ASIC))
    for node in adapter.nodes():
        if node.caps.general.temp_warn_event:
            raise_event(node.events, EventType.TEMP_WARN_EVENT, data)
