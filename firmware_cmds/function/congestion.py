"""Congestion control of RoCE: parameters, status, statistics (hw/cong.c, core/cmd.c)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.port.congestion import (
    LIMITS,
    PRIORITIES,
    Congestion,
    NotificationPoint,
    ReactionPoint,
)
from layouts.enums.cmd import Op, Status
from layouts.enums.roce import CongProtocol
from layouts.function import congestion as layout
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_WORD = (1 << 32) - 1

_LAYOUTS: Mapping[CongProtocol, type[Prm]] = {
    CongProtocol.R_ROCE_ECN_RP: layout.cong_control_r_roce_ecn_rp,
    CongProtocol.R_ROCE_ECN_NP: layout.cong_control_r_roce_ecn_np,
}

_SELECTED = {
    CongProtocol.R_ROCE_ECN_RP: {
        "clamp_tgt_rate": 1, "clamp_tgt_rate_after_time_inc": 2, "rpg_time_reset": 3,
        "rpg_byte_reset": 4, "rpg_threshold": 5, "rpg_max_rate": 6, "rpg_ai_rate": 7,
        "rpg_hai_rate": 8, "rpg_min_dec_fac": 9, "rpg_min_rate": 10,
        "rate_to_set_on_first_cnp": 11, "dce_tcp_g": 12, "dce_tcp_rtt": 13,
        "rate_reduce_monitor_period": 14, "initial_alpha_value": 15, "rpg_gd": 16,
    },
    CongProtocol.R_ROCE_ECN_NP: {
        "min_time_between_cnps": 2, "cnp_dscp": 3, "cnp_prio_mode": 4, "cnp_802p_prio": 4,
    },
}  # fmt: skip
"""Bits of ``field_select`` (hw/cong.c: MLX5_IB_RP_*_ATTR, MLX5_IB_NP_*_ATTR)."""


def _congestion(hca: Hca, capability: str) -> Congestion:
    """Return the port's congestion control; raise BAD_OP_ERR without ``capability``."""
    if not getattr(hca.caps.general, capability):
        raise CmdError(Status.BAD_OP_ERR, "the port has no congestion control")
    return hca.roce.congestion


def _protocol(protocol: int) -> CongProtocol:
    """Return cong_protocol as its member; raise BAD_PARAM_ERR unless R_ROCE_ECN_RP or _NP."""
    if protocol not in _LAYOUTS:
        raise BadParamError("cong_protocol not supported", f"{protocol}")
    return CongProtocol(protocol)


def _point(congestion: Congestion, protocol: CongProtocol) -> ReactionPoint | NotificationPoint:
    return congestion.rp if protocol is CongProtocol.R_ROCE_ECN_RP else congestion.np


@command(Op.QUERY_CONG_PARAMS)
def query_cong_params(
    hca: Hca, cmd: layout.query_cong_params_in, out: layout.query_cong_params_out
) -> None:
    """Return the parameters of the reaction or the notification point.

    Refuse with BAD_OP_ERR without cc_query_allowed, and another cong_protocol with BAD_PARAM_ERR.
    """
    congestion, protocol = _congestion(hca, "cc_query_allowed"), _protocol(cmd.cong_protocol)
    point = _point(congestion, protocol)
    values = {field.name: getattr(point, field.name) for field in fields(point)}
    out.congestion_parameters = bytes(_LAYOUTS[protocol].new(**values).buf)


@command(Op.MODIFY_CONG_PARAMS, privileged=True)
def modify_cong_params(
    hca: Hca, cmd: layout.modify_cong_params_in, out: layout.modify_cong_params_out
) -> None:
    """Change the selected parameters, effective from the next packet.

    Refuse with BAD_OP_ERR without cc_modify_allowed. Refuse with BAD_PARAM_ERR another
    cong_protocol, and a value above its limit before any is changed.
    """
    congestion, protocol = _congestion(hca, "cc_modify_allowed"), _protocol(cmd.cong_protocol)
    given = _LAYOUTS[protocol].view(bytearray(cmd.congestion_parameters))
    changes = {
        name: int(getattr(given, name))
        for name, bit in _SELECTED[protocol].items()
        if cmd.field_select & 1 << bit
    }
    for name, value in changes.items():
        if value > LIMITS.get(name, _WORD):
            raise BadParamError("congestion parameter out of its range", f"{name} {value}")
    point = _point(congestion, protocol)
    for name, value in changes.items():
        setattr(point, name, value)


def _enabled_by_priority(
    hca: Hca, cmd: layout.query_cong_status_in | layout.modify_cong_status_in, capability: str
) -> tuple[Congestion, list[bool]]:
    """Return the congestion control and the switches of the command's point, one for each priority.

    Raises BAD_OP_ERR without ``capability``, BAD_PARAM_ERR for another cong_protocol or a priority
    above 7.
    """
    congestion, protocol = _congestion(hca, capability), _protocol(cmd.cong_protocol)
    if cmd.priority >= PRIORITIES:
        raise BadParamError("priority above 7", f"{cmd.priority}")
    is_rp = protocol is CongProtocol.R_ROCE_ECN_RP
    return congestion, congestion.rp_enabled if is_rp else congestion.np_enabled


@command(Op.QUERY_CONG_STATUS)
def query_cong_status(
    hca: Hca, cmd: layout.query_cong_status_in, out: layout.query_cong_status_out
) -> None:
    """Return whether a point is enabled for a priority.

    Refuse with BAD_OP_ERR without cc_query_allowed, and another cong_protocol or a priority above 7
    with BAD_PARAM_ERR.
    """
    _, statuses = _enabled_by_priority(hca, cmd, "cc_query_allowed")
    out.enable = statuses[cmd.priority]


@command(Op.MODIFY_CONG_STATUS, privileged=True)
def modify_cong_status(
    hca: Hca, cmd: layout.modify_cong_status_in, out: layout.modify_cong_status_out
) -> None:
    """Enable or disable a point for a priority; ``tag_enable`` (802.1Qau) is ignored.

    Refuse with BAD_OP_ERR without cc_modify_allowed, and another cong_protocol or a priority above
    7 with BAD_PARAM_ERR.
    """
    congestion, statuses = _enabled_by_priority(hca, cmd, "cc_modify_allowed")
    congestion.enable(statuses, cmd.priority, enabled=bool(cmd.enable))


@command(Op.QUERY_CONG_STATISTICS)
def query_cong_statistics(
    hca: Hca, cmd: layout.query_cong_statistics_in, out: layout.query_cong_statistics_out
) -> None:
    """Return marked packets and notifications sent, obeyed and ignored; ``clear`` zeroes them.

    Refuse with BAD_OP_ERR without cc_query_allowed.
    """
    congestion = _congestion(hca, "cc_query_allowed")
    out.rp_cur_flows = congestion.flows
    for name in ("rp_cnp_ignored", "rp_cnp_handled", "np_ecn_marked_roce_packets", "np_cnp_sent"):
        setattr(out, f"{name}_high", congestion.counts[name] >> 32 & _WORD)
        setattr(out, f"{name}_low", congestion.counts[name] & _WORD)
    if cmd.clear:
        congestion.counts.clear()
