"""Refuses queue pairs that the adapter does not support: services, options, streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from emu.device.objects.object import DRIVER_UID
from firmware_cmds.objects.wq import check_end_padding
from firmware_cmds.options import first_set
from layouts.enums.cmd import Status
from layouts.enums.qp import QpType, RqType, UlpStatelessOffloadMode
from layouts.objects import qp as layout
from layouts.objects.xrq import OFFLOAD_RNDV

if TYPE_CHECKING:
    from emu.device.objects.queues.srq import Srq
    from emu.device.state.caps import Caps
    from emu.device.state.tables import ObjectTables

_GATES = {QpType.RC: "rc", QpType.UC: "uc", QpType.UD: "ud", QpType.XRC: "xrc", QpType.DCI: "dct"}
_ALWAYS = (QpType.QP0, QpType.QP1, QpType.REG_UMR)
_NOT_BUILT = (
    *("cd_master", "cd_slave_send", "cd_slave_receive", "req_e2e_credit_mode", "isolate_vl_tc"),
)
"""Fields of qpc whose features have capability bits, none of which is set."""
_NO_DBR_EXT = 1
"""Value of send_dbr_mode: doorbells carry the producer index themselves."""
_RQ_TYPES = (RqType.RQ, RqType.SRQ, RqType.ZERO_LEN_RQ)


def check_type(tables: ObjectTables, ctx: layout.qpc) -> None:
    """Refuse with BAD_PARAM_ERR a service, rq_type or option that is not supported.

    Refuse with it also a process that wants QP0, QP1, REG_UMR, ``rlky`` or ``fre``.
    """
    try:
        kind = QpType(ctx.st)
    except ValueError:
        kind = None
    if kind not in _ALWAYS and not (kind in _GATES and getattr(tables.caps.general, _GATES[kind])):
        raise BadParamError("transport service not supported", f"st {ctx.st:#x}")
    if ctx.rq_type not in _RQ_TYPES:
        raise BadParamError("rq_type not supported", f"{ctx.rq_type}")
    if name := first_set(ctx, _NOT_BUILT):
        raise BadParamError("queue pair option not supported", name)
    check_end_padding(ctx.end_padding_mode)
    _check_stateless_offloads(tables.caps, ctx)
    if ctx.send_dbr_mode and not (
        ctx.send_dbr_mode == _NO_DBR_EXT and tables.caps.general_2.send_dbr_mode_no_dbr_ext
    ):
        raise BadParamError("send_dbr_mode not supported", f"{ctx.send_dbr_mode}")
    if tables.caller.uid != DRIVER_UID and (kind in _ALWAYS or ctx.rlky or ctx.fre):
        # A queue pair of these types reaches physical addresses, keys of all domains, or subnet
        # management.
        raise BadParamError(
            "only the driver may create a queue pair of this type", f"st {ctx.st:#x}"
        )


def check_streams(caps: Caps, ctx: layout.qpc) -> None:
    """Refuse with LIM_ERR a DC initiator with more streams than the capabilities allow.

    mlx5_ib forwards a process's numbers unchecked (hw/qp.c: create_dci).
    """
    channels, errored = ctx.log_num_dci_stream_channels, ctx.log_num_dci_errored_streams
    general = caps.general
    if ctx.st == QpType.DCI and (
        channels > general.log_max_dci_stream_channels
        or errored > general.log_max_dci_errored_streams
    ):
        raise CmdError(
            Status.LIM_ERR, "more streams than the capabilities allow", f"{channels}, {errored}"
        )


def _check_stateless_offloads(caps: Caps, ctx: layout.qpc) -> None:
    """Refuse an unsupported ulp_stateless_offload_mode with BAD_PARAM_ERR.

    A mode other than 0 needs its ipoib capability and the service UD.
    """
    mode = ctx.ulp_stateless_offload_mode
    if not mode:
        return
    offered = {
        int(UlpStatelessOffloadMode.BASIC): caps.general.ipoib_basic_offloads,
        int(UlpStatelessOffloadMode.ENHANCED): caps.general.ipoib_enhanced_offloads,
    }
    if not offered.get(mode) or ctx.st != QpType.UD:
        raise BadParamError("ulp_stateless_offload_mode not supported", f"{mode}, st {ctx.st:#x}")


def check_tag_matching(ctx: layout.qpc, srq: Srq | None) -> None:
    """Refuse with BAD_PARAM_ERR a wrong use of an XRQ, which matches tags.

    Only RC receives from such a queue, and only with such a queue is rendezvous possible.
    """
    matches = srq is not None and srq.tags is not None
    if matches and ctx.st != QpType.RC:
        raise BadParamError("tag matching is for RC", f"st {ctx.st:#x}")
    if ctx.offload_type and not (matches and ctx.offload_type == OFFLOAD_RNDV):
        raise BadParamError("offload_type not supported", f"{ctx.offload_type}")
