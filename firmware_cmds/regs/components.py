"""Versions of the firmware: registers behind ``devlink dev info`` (PRM "MCAM", "MCQS", "MCQI";
core/fw.c).

The firmware is one component, the boot image. No other version of it waits for a reset, and none
can be loaded. Only physical functions have these registers: a virtual one has no firmware to show
(core/devlink.c: mlx5_devlink_info_get).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from layouts.enums.cmd import Status
from layouts.regs import component_regs as layout
from layouts.regs.port_regs import mcam_access_reg, mcam_enhanced_features

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.state.tables import ObjectTables
    from layouts.regs.port_regs import mcam_reg

BOOT_IMAGE = 1
"""Identifier of a component (core/fw.c: MCQS_IDENTIFIER_BOOT_IMG); its index is 0, the only one."""

_REGISTERS_9000, _ENHANCED_FEATURES = 0, 0
"""Values of mcam_reg.access_reg_group of the registers 0x9000 to 0x907f, and feature_group."""


class InfoType(IntEnum):
    """Kinds of component information in MCQI (core/fw.c: MCQI_INFO_TYPE_*)."""

    CAPABILITIES = 0
    VERSION = 1


def mcam(tables: ObjectTables, reg: mcam_reg) -> None:
    """Fill in the supported management registers and features, a bit each.

    Other groups are left as zeros.
    """
    general = tables.caps.general
    has_real_time, has_pins = bool(general.rq_ts_format), bool(general.pps)
    if reg.access_reg_group == _REGISTERS_9000:
        registers = mcam_access_reg.new(mcqi=1, mcqs=1, mtmp=1, mtutc=has_real_time)
        reg.mng_access_reg_cap_mask = bytes(registers)
    if reg.feature_group == _ENHANCED_FEATURES:
        # mcia_32dwords is not set: Linux 6.1.176 would request 32 words with space for 12, so that
        # `ethtool -m` panics (examples/findings/module-read-in-32-words.toml).
        features = mcam_enhanced_features.new(
            pci_status_and_power=1, pcie_performance_group=1,
            tx_overflow_buffer_pkt=1, pcie_outbound_stalled=1, ptpcyc2realtime_modify=has_real_time,
            mtutc_freq_adj_units=has_real_time, mtutc_time_adjustment_extended_range=has_real_time,
            mtpps_fs=has_pins, mtpps_enh_out_per_adj=has_pins, npps_period=has_pins,
            out_pulse_duration_ns=has_pins,
        )  # fmt: skip
        reg.mng_feature_cap_mask = bytes(features)


def mcqs(_: object, reg: layout.mcqs_reg) -> None:
    """Fill in a component's state: the boot image, in use and not being updated.

    Refuse another component_index than 0 with BAD_PARAM_ERR.
    """
    _check_index(reg)
    reg.last_index_flag = 1
    reg.identifier = BOOT_IMAGE


def mcqi(tables: ObjectTables, reg: layout.mcqi_reg) -> None:
    """Fill in ``data_size`` bytes of information about a component.

    ``read_pending_component`` requests the version that the next reset activates: the same one. A
    short output gets BAD_OUTP_LEN_ERR. Refuse an unknown info_type, offset or component_index with
    BAD_PARAM_ERR.
    """
    _check_index(reg)
    about = _INFORMATION.get(reg.info_type)
    if about is None or reg.offset:
        raise BadParamError("info_type or offset of MCQI not supported", f"type {reg.info_type}")
    info = about(tables.model)
    data, at = info[: reg.data_size], layout.mcqi_reg.size
    if len(reg.buf) - at < len(data):
        raise CmdError(
            Status.BAD_OUTP_LEN_ERR,
            "output is too short for the component information",
            f"{len(data)} bytes",
        )
    reg.info_size = len(info)
    reg.buf[at : at + len(data)] = data


def mgir(tables: ObjectTables, reg: layout.mgir_reg) -> None:
    """Fill in a summary of adapter and firmware, for tools (mstflint, mstlink, mstreg)."""
    model = tables.model
    reg.device_id = model.identity.device_id
    reg.hw_dev_id = model.hw_id
    reg.num_ports = 1
    reg.psid = model.psid.encode().ljust(16, b"\0")
    reg.extended_major, reg.extended_minor = model.fw_major, model.fw_minor
    reg.extended_sub_minor = model.fw_subminor


def mfrl(_: object, _reg: layout.mfrl_reg) -> None:
    """Fill in zeros: no kind of reset activates other firmware.

    Linux 6.1 reads it without checking MCAM.
    """


def _check_index(reg: layout.mcqs_reg | layout.mcqi_reg) -> None:
    """Refuse another component than the boot image, index 0, with BAD_PARAM_ERR."""
    if reg.component_index:
        raise BadParamError("component_index not supported", f"{reg.component_index}")


def _capabilities(_model: Model) -> bytes:
    """Return the component's capabilities: none can be written, and the image cannot be read."""
    return bytes(layout.mcqi_cap.new(supported_info_bitmask=sum(1 << kind for kind in InfoType)))


def _version(model: Model) -> bytes:
    """Return the version of the initialization segment, as a number and as text."""
    text = model.firmware.encode()
    return bytes(
        layout.mcqi_version.new(
            version=model.fw_major << 24 | model.fw_minor << 16 | model.fw_subminor,
            version_string_length=len(text),
            version_string=text.ljust(92, b"\0"),
        )
    )


_INFORMATION: Mapping[int, Callable[[Model], bytes]] = {
    InfoType.CAPABILITIES: _capabilities,
    InfoType.VERSION: _version,
}
