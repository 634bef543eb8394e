"""Registers of an Ethernet port (PRM "Port registers"; core/port.c, core/en_ethtool.c).

The driver reads and writes them at probe, when an interface is set up or down or its MTU changes,
and for ethtool. A virtual function's driver does the same with its own port.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from emu.device.engine.eth.rx_credits import expire_segment_credits
from emu.device.engine.events.board import module_status
from emu.device.errors import BadParamError
from emu.device.port.eth import counter_groups
from emu.device.port.eth.flow_control import MAX_CRITICAL_MS
from emu.device.port.eth.physical import module
from emu.device.port.eth.qos import PRIORITIES
from firmware_cmds.regs import buffer_regs, link_regs, qos_regs, roce_accl
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import PortStatus, RegId
from layouts.regs import module_regs, port_regs
from layouts.regs import reg as layout

if TYPE_CHECKING:
    from emu.device.port.eth.port import EthPort
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

MIN_MTU = 64
"""Size in bytes of the shortest frame with its check sequence."""

_REGISTERS_5000, _ENHANCED_FEATURES = 0, 0
"""Values of pcam_reg.access_reg_group and feature_group."""

_FOREVER = 0xFFFF
"""Value of mlcr_reg.beacon_duration, in seconds, for no limit (driver.h: MLX5_BEACON_DURATION_INF).
"""
_NS_PER_S = 1_000_000_000

_MODULE_NOT_SUPPORTED = 2
"""Value of mcia_reg.status: the page, address or offset does not exist (MLX5_MCIA_STATUS_*)."""


def _pmtu(hca: Hca, reg: layout.pmtu_reg) -> None:
    """Fill in the hardware MTUs: frames with a VLAN tag and their check sequence."""
    port = hca.eth
    reg.max_mtu = port.max_mtu
    reg.admin_mtu = reg.oper_mtu = port.admin_mtu


def _set_pmtu(hca: Hca, reg: layout.pmtu_reg) -> None:
    """Set admin_mtu, the largest one that a function of the adapter has requested.

    Refuse one below 64 or above max_mtu with BAD_PARAM_ERR.
    """
    port = hca.eth
    if not MIN_MTU <= reg.admin_mtu <= port.max_mtu:
        raise BadParamError("MTU below 64, or above the port's maximum", f"{reg.admin_mtu}")
    port.request_mtu(hca.vhca.vport_number, int(reg.admin_mtu))
    _pmtu(hca, reg)


def _pfcc(hca: Hca, reg: port_regs.pfcc_reg) -> None:
    """Fill in whether pause frames are sent and obeyed, for all traffic (PAUSE) or by priority
    (PFC).
    """
    flow = hca.eth.flow
    reg.pptx, reg.pprx = int(flow.pause_tx), int(flow.pause_rx)
    reg.pfctx, reg.pfcrx = flow.pfc_tx, flow.pfc_rx
    reg.device_stall_critical_watermark = flow.critical_ms
    reg.device_stall_minor_watermark = flow.minor_ms


def _set_pfcc(hca: Hca, reg: port_regs.pfcc_reg) -> None:
    """Set the fields that the masks select.

    PAUSE and PFC exclude each other (IEEE 802.1Q 36.1), so PAUSE disables PFC. Linux writes PFC
    with PAUSE off, and PAUSE without PFC fields. The masks of stalls select the time in
    milliseconds for which the port may pause its link partner (en_ethtool.c:
    mlx5e_set_pfc_prevention_tout). Watermarks above MAX_CRITICAL_MS are cut. No write is refused.
    Senders of the segment obey the new settings from the next WQE on.
    """
    flow = hca.eth.flow
    if not reg.pptx_mask_n:
        flow.pause_tx = bool(reg.pptx)
    if not reg.pprx_mask_n:
        flow.pause_rx = bool(reg.pprx)
    pfc_tx = _masked(flow.pfc_tx, reg.pfctx, reg.prio_mask_tx)
    pfc_rx = _masked(flow.pfc_rx, reg.pfcrx, reg.prio_mask_rx)
    flow.pfc_tx = 0 if flow.pause_tx else pfc_tx
    flow.pfc_rx = 0 if flow.pause_rx else pfc_rx
    expire_segment_credits(hca.adapter)
    if reg.critical_stall_mask:
        flow.critical_ms = min(reg.device_stall_critical_watermark, MAX_CRITICAL_MS)
    if reg.minor_stall_mask:
        flow.minor_ms = min(reg.device_stall_minor_watermark, MAX_CRITICAL_MS)
    _pfcc(hca, reg)


def _masked(old: int, new: int, mask: int) -> int:
    return old & ~mask | new & mask


def _pcam(port: EthPort, reg: port_regs.pcam_reg) -> None:
    """Fill in the port's registers and features, a bit each; other groups are empty."""
    if reg.access_reg_group == _REGISTERS_5000:
        mask = port_regs.pcam_regs_5000_to_507f.new(ppcnt=1, pplm=1, pbmc=1, pptb=1)
        reg.port_access_reg_cap_mask = bytes(mask)
    if reg.feature_group == _ENHANCED_FEATURES:
        features = port_regs.pcam_enhanced_features.new(
            fec_50G_per_lane_in_pplm=1, fec_100G_per_lane_in_pplm=1,
            ptys_extended_ethernet=port.modes.is_extended,
            ptys_connector_type=1, ppcnt_statistical_group=1, rx_buffer_fullness_counters=1,
            per_lane_error_counters=1, pfcc_mask=1,
        )  # fmt: skip
        reg.feature_cap_mask = bytes(features)


def _ppcnt(hca: Hca, reg: layout.ppcnt_reg) -> None:
    """Fill in one group of counters (``emu.device.port.eth.counter_groups``).

    ``clr`` of the manager zeroes them after the read. Refuse an unknown group or priority with
    BAD_PARAM_ERR.
    """
    if reg.grp not in counter_groups.GROUPS:
        raise BadParamError("counter group not supported", f"{reg.grp:#x}")
    if reg.prio_tc >= PRIORITIES:
        raise BadParamError("no such priority", f"{reg.prio_tc}")
    clear = bool(reg.clr) and hca.vhca.is_manager
    counters = counter_groups.read(
        hca.eth, hca.adapter.port_traffic(), reg.grp, reg.prio_tc, clear=clear
    )
    reg.counter_set = counters.ljust(len(reg.counter_set), b"\0")


def _pcmr(port: EthPort, reg: port_regs.pcmr_reg) -> None:
    """Fill in whether the frame check sequence is checked; nothing else can be configured."""
    reg.entropy_force_cap = reg.entropy_calc_cap = reg.entropy_gre_calc_cap = 0
    reg.entropy_force = reg.entropy_calc = reg.entropy_gre_calc = 0
    reg.rx_ts_over_crc_cap = reg.rx_ts_over_crc = 0
    reg.fcs_cap = 1
    reg.fcs_chk = port.checks_fcs


def _set_pcmr(port: EthPort, reg: port_regs.pcmr_reg) -> None:
    """Set whether frames are checked (``ethtool -K rx-all``).

    Other bits have no capability and no effect.
    """
    port.checks_fcs = bool(reg.fcs_chk)
    _pcmr(port, reg)


def _pmaos(hca: Hca, reg: module_regs.pmaos_reg) -> None:
    """Fill in whether a module is present (illumos' mlxcx: mlxcx_mac_txr_info).

    Refuse another module than 0 with BAD_PARAM_ERR.
    """
    if reg.module:
        raise BadParamError("no such module", f"{reg.module}")
    reg.admin_status = PortStatus.UP
    reg.oper_status = module_status(hca.port)


def _mlcr(hca: Hca, reg: port_regs.mlcr_reg) -> None:
    """Fill in the number of seconds for which the port's LED still blinks.

    0 means that it does not blink, 0xFFFF that it blinks without end.
    """
    end = hca.eth.beacon_end_ns
    if end is None:
        reg.beacon_remain = _FOREVER
    else:
        rest = -(-(end - hca.clock.now_ns()) // _NS_PER_S)
        reg.beacon_remain = min(max(rest, 0), _FOREVER - 1)


def _set_mlcr(hca: Hca, reg: port_regs.mlcr_reg) -> None:
    """Start or stop the LED.

    ``ethtool --identify`` writes the endless duration, then 0 (en_ethtool.c: set_phys_id). Write a
    line about the LED to the log.
    """
    seconds = reg.beacon_duration
    is_endless = seconds == _FOREVER
    hca.eth.beacon_end_ns = None if is_endless else hca.clock.now_ns() + seconds * _NS_PER_S
    log.info("%s: the port's LED %s", hca.model.name, "blinks" if seconds else "stops blinking")
    _mlcr(hca, reg)


def _mcia(port: EthPort, reg: module_regs.mcia_reg) -> None:
    """Fill in bytes of the module's EEPROM; the status field reports bytes that do not exist.

    No access is refused: status is 2 for another module, I2C address or range. The diagnostics
    address reads as zeros.
    """
    start, size = reg.device_address, min(reg.size, len(reg.dwords))
    addresses = (module.I2C_ADDRESS, module.I2C_DIAGNOSTICS)
    if reg.module or reg.i2c_device_address not in addresses or start + size > module.PAGE_BYTES:
        reg.status = _MODULE_NOT_SUPPORTED
        return
    is_there = reg.i2c_device_address == module.I2C_ADDRESS
    page = bytes(module.PAGE_BYTES)
    if is_there and (not reg.page_number or start < module.PAGE_BYTES // 2):
        page = module.eeprom(port.modes.lanes)
    reg.status, reg.size = 0, size
    reg.dwords = page[start : start + size].ljust(len(reg.dwords), b"\0")


_OF_PORT: dict[int, AccessRegister[EthPort]] = {
    RegId.PCAM: AccessRegister(port_regs.pcam_reg, _pcam, gate="pcam_reg"),
    RegId.MCIA: AccessRegister(module_regs.mcia_reg, _mcia),
    RegId.PCMR: AccessRegister(
        port_regs.pcmr_reg, _pcmr, _set_pcmr, gate="ports_check", is_shared=True
    ),
}
REGISTERS: dict[int, AccessRegister[Any]] = {
    **of_part(lambda hca: hca.eth, _OF_PORT),
    **qos_regs.REGISTERS,
    **roce_accl.REGISTERS,
    **link_regs.REGISTERS,
    **buffer_regs.REGISTERS,
    RegId.PMTU: AccessRegister(layout.pmtu_reg, _pmtu, _set_pmtu),
    RegId.PFCC: AccessRegister(port_regs.pfcc_reg, _pfcc, _set_pfcc, is_shared=True),
    RegId.PPCNT: AccessRegister(layout.ppcnt_reg, _ppcnt),
    RegId.PMAOS: AccessRegister(module_regs.pmaos_reg, _pmaos),
    RegId.MLCR: AccessRegister(
        port_regs.mlcr_reg, _mlcr, _set_mlcr, gate="beacon_led", is_shared=True
    ),
}
"""Registers of a function with this link layer."""
