"""Registers of quality of service (PRM "QoS registers"; core/port.c, core/en_dcbnl.c).

mlx5e writes the classes at probe, and later the settings of ``dcb`` and ``lldptool``. In QETCR and
QTCT port_number is 0 or 1: the driver leaves it out of some accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth import pacing
from emu.device.errors import BadParamError
from emu.device.objects.eth.pacing import Limit
from emu.device.port.eth import qos
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import RegId, TrustState
from layouts.regs import qos_regs as layout
from layouts.regs.port_regs import qcam_reg

if TYPE_CHECKING:
    from emu.device.port.eth.port import EthPort
    from emu.device.state.hca import Hca

_REGISTERS = 0
_BPS = {0: 0, 3: 100_000_000, 4: 1_000_000_000}
"""Units of ets_tcn_config_reg.max_bw_units, in bits per second: none, 100 Mb/s, 1 Gb/s
(device.h: MLX5_BW_NO_LIMIT, MLX5_100_MBPS_UNIT, MLX5_GBPS_UNIT)."""
_TRUSTED = (TrustState.PCP, TrustState.DSCP)


def _qcam(_: object, reg: qcam_reg) -> None:
    """Fill in the registers of DSCP priorities; there are no further features.

    Other groups are left as zeros.
    """
    if reg.access_reg_group == _REGISTERS:
        mask = layout.qcam_access_reg_cap_mask.new(qpts=1, qpdpm=1)
        reg.qos_access_reg_cap_mask = bytes(mask)


def _qpts(port: EthPort, reg: layout.qpts_reg) -> None:
    """Fill in the source of a frame's priority: its VLAN tag or its DSCP."""
    reg.trust_state = TrustState.DSCP if port.qos.trusts_dscp else TrustState.PCP


def _set_qpts(port: EthPort, reg: layout.qpts_reg) -> None:
    """Set the source of a frame's priority; refuse an unknown trust_state with BAD_PARAM_ERR."""
    if reg.trust_state not in _TRUSTED:
        raise BadParamError("unknown trust_state", f"{reg.trust_state}")
    port.count_paths()
    port.qos.trust(dscp=reg.trust_state == TrustState.DSCP)
    _qpts(port, reg)


def _qpdpm(port: EthPort, reg: layout.qpdpm_reg) -> None:
    """Fill in the priority of each DSCP."""
    for entry, priority in zip(reg.dscp, port.qos.dscp_to_priority):
        entry.e, entry.prio = 0, priority


def _set_qpdpm(port: EthPort, reg: layout.qpdpm_reg) -> None:
    """Set the entries that have ``e`` set.

    Refuse a priority above 7 with BAD_PARAM_ERR; no entry is then changed.
    """
    table = bytearray(port.qos.dscp_to_priority)
    for dscp, entry in enumerate(reg.dscp):
        if entry.e:
            if entry.prio >= qos.PRIORITIES:
                raise BadParamError("no such priority", f"{entry.prio}")
            table[dscp] = entry.prio
    port.count_paths()
    port.qos.dscp_to_priority[:] = table
    _qpdpm(port, reg)


def _check_port(reg: layout.qtct_reg | layout.qetc_reg) -> None:
    if reg.port_number > 1:
        raise BadParamError("no such port", f"{reg.port_number}")


def _qtct(hca: Hca, reg: layout.qtct_reg) -> None:
    """Fill in the traffic class of a priority."""
    _check_port(reg)
    reg.tclass = hca.eth.qos.priority_to_class[reg.prio]


def _set_qtct(hca: Hca, reg: layout.qtct_reg) -> None:
    """Set the traffic class of a priority; send queues take its rate over the next rounds."""
    _check_port(reg)
    hca.eth.qos.priority_to_class[reg.prio] = reg.tclass
    for node in hca.adapter.nodes():
        pacing.apply_to_all(node)


def _qetcr(hca: Hca, reg: layout.qetc_reg) -> None:
    """Fill in groups, shares and limits of the traffic classes; the port has none of its own.

    Refuse another port_number than 0 or 1 with BAD_PARAM_ERR.
    """
    _check_port(reg)
    for entry, tclass in zip(reg.tc_configuration, hca.eth.qos.classes):
        entry.g = entry.b = entry.r = 0
        entry.group, entry.bw_allocation = tclass.group, tclass.bw_allocation
        entry.max_bw_units, entry.max_bw_value = tclass.max_bw


def _set_qetcr(hca: Hca, reg: layout.qetc_reg) -> None:
    """Set the fields that have their bit set: group (g), share (b), limit (r).

    Send queues take a new limit over the next rounds. Refuse with BAD_PARAM_ERR an unknown group,
    share or unit, and a limit of the port; no field is then changed.
    """
    _check_port(reg)
    entries = tuple(reg.tc_configuration)
    for entry in entries:
        if entry.g and entry.group >= qos.CLASSES:
            raise BadParamError("no such group of classes", f"{entry.group}")
        if entry.b and entry.bw_allocation > qos.ALL_OF_IT:
            raise BadParamError("bw_allocation above 100 %", f"{entry.bw_allocation}")
        if entry.r and entry.max_bw_units not in _BPS:
            raise BadParamError("unknown unit of a rate", f"{entry.max_bw_units}")
    if reg.global_configuration.r and reg.global_configuration.max_bw_units:
        raise BadParamError("a rate limit of the port is not supported")
    for entry, tclass in zip(entries, hca.eth.qos.classes):
        if entry.g:
            tclass.group = entry.group
        if entry.b:
            tclass.bw_allocation = entry.bw_allocation
        if entry.r:
            tclass.max_bw = entry.max_bw_units, entry.max_bw_value
            bps = _BPS[entry.max_bw_units] * entry.max_bw_value
            tclass.limit = Limit(bps) if bps else None
    for node in hca.adapter.nodes():
        pacing.apply_to_all(node)
    _qetcr(hca, reg)


_OF_PORT: dict[int, AccessRegister[EthPort]] = {
    RegId.QCAM: AccessRegister(qcam_reg, _qcam, gate="qcam_reg"),
    RegId.QPTS: AccessRegister(layout.qpts_reg, _qpts, _set_qpts, gate="qcam_reg", is_shared=True),
    RegId.QPDPM: AccessRegister(
        layout.qpdpm_reg, _qpdpm, _set_qpdpm, gate="qcam_reg", is_shared=True
    ),
}
REGISTERS = {
    **of_part(lambda hca: hca.eth, _OF_PORT),
    RegId.QTCT: AccessRegister(layout.qtct_reg, _qtct, _set_qtct, gate="ets", is_shared=True),
    RegId.QETCR: AccessRegister(layout.qetc_reg, _qetcr, _set_qetcr, gate="ets", is_shared=True),
}
"""Registers of an Ethernet function."""
