"""Registers of the board: temperature, the PCIe link and its counters, the cable's lanes.

Linux shows them as hwmon sensors, in ``ethtool -S``, and in a kernel log line about the slot's
power (core/hwmon.c, core/en_stats.c: pcie, core/events.c: mlx5_pcie_event).

Source: PRM "MTCAP", "MTMP", "MPCNT", "MPEIN", "PMLP".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError
from firmware_cmds.regs.registers import AccessRegister
from layouts.enums.caps import PortType
from layouts.enums.regs import RegId
from layouts.regs import module_regs, port_counters
from layouts.regs import reg as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_ASIC, _MODULE_0 = 0, 64
"""Values of mtmp_reg.sensor_index: bits of MTCAP's map, then the modules (core/hwmon.c)."""
_PERFORMANCE = 0
_LANES, _TIMERS_AND_STATES = 1, 2
"""Values of mpcnt_reg.grp (FreeBSD's device.h: MLX5_PCIE_*_COUNTERS_GROUP)."""
_GROUPS = (_PERFORMANCE, _LANES, _TIMERS_AND_STATES)
_NAME_BYTES = 8
_IB_LANES = 4


def _mtcap(_: object, reg: module_regs.mtcap_reg) -> None:
    """Fill in the chip as the only sensor, with one diode."""
    reg.sensor_count, reg.sensor_map = 1, 1 << _ASIC
    reg.internal_sensor_count = 1


def _mtmp(hca: Hca, reg: module_regs.mtmp_reg) -> None:
    """Fill in a sensor's temperatures; ``mtr`` resets its maximum, which is always recorded (mte).

    With ``i`` the index is that of a diode of the chip (mstmget_temp). The cable has no sensor: 0.
    Refuse another sensor_index with BAD_PARAM_ERR.
    """
    if reg.sensor_index == _MODULE_0 and not reg.i:
        reg.temperature = reg.max_temperature = 0
        return
    if reg.sensor_index != _ASIC:
        raise BadParamError("no such sensor", f"{reg.sensor_index}")
    sensor = hca.adapter.board.asic
    if reg.mtr:
        sensor.forget()
    reg.mtr = 0
    reg.temperature, reg.max_temperature = sensor.temperature, sensor.highest
    reg.temp_threshold_hi = reg.temp_threshold_lo = sensor.threshold
    name = sensor.name.encode().ljust(_NAME_BYTES, b"\0")
    reg.sensor_name_hi = int.from_bytes(name[:4], "big")
    reg.sensor_name_lo = int.from_bytes(name[4:], "big")


def _mpcnt(_: object, reg: port_counters.mpcnt_reg) -> None:
    """Fill in the PCIe counters, which are all 0.

    The link loses nothing, no request on it waits, and it never leaves L0. FreeBSD's mlx5en reads
    all three groups every second. Refuse another group with BAD_PARAM_ERR.
    """
    if reg.grp not in _GROUPS or reg.pcie_index:
        raise BadParamError("counter group not supported", f"{reg.grp:#x}")
    is_performance = reg.grp == _PERFORMANCE
    counters = port_counters.pcie_perf_cntrs_grp_data_layout.new() if is_performance else b""
    reg.counter_set = bytes(counters).ljust(len(reg.counter_set), b"\0")


def _mpein(tables: ObjectTables, reg: layout.mpein_reg) -> None:
    """Fill in the state of the PCIe link.

    The slot advertises no power (pwr_status 0).
    """
    identity = tables.model.identity
    reg.link_width_enabled = reg.link_width_active = identity.link_width
    reg.link_speed_enabled = (1 << identity.link_speed) - 1
    reg.link_speed_active = 1 << identity.link_speed - 1
    reg.num_of_pfs = 1
    reg.pwr_status = reg.pci_power = 0


def _pmlp(hca: Hca, reg: module_regs.pmlp_reg) -> None:
    """Fill in the lane map: all lanes of the port lead to module 0."""
    is_ethernet = hca.model.port_type is PortType.ETH
    lanes = hca.eth.modes.lanes if is_ethernet else _IB_LANES
    reg.width = lanes
    for lane in range(lanes):
        mapping = module_regs.lane_2_module_mapping.new(rx_lane=lane, tx_lane=lane)
        setattr(reg, f"lane{lane}_module_mapping", int.from_bytes(bytes(mapping), "big"))


REGISTERS: dict[int, AccessRegister[Hca]] = {
    RegId.MTCAP: AccessRegister(module_regs.mtcap_reg, _mtcap, gate="mcam_reg"),
    RegId.MTMP: AccessRegister(module_regs.mtmp_reg, _mtmp, _mtmp, gate="mcam_reg"),
    RegId.MPCNT: AccessRegister(port_counters.mpcnt_reg, _mpcnt, gate="mcam_reg"),
    RegId.MPEIN: AccessRegister(layout.mpein_reg, _mpein, gate="mcam_reg"),
    RegId.PMLP: AccessRegister(module_regs.pmlp_reg, _pmlp),
}
"""Registers of every function; a virtual one has only the lanes."""
