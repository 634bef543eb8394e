"""Transitions of queue pairs between their states, with changes of the context."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from emu.device.cmdif.registry import Command, OpenField, add
from emu.device.engine.qp import attributes, migration, pacing
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp import transitions as qp_state
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.queues.qp import Qp
from emu.device.state.hca import HcaState
from firmware_cmds.objects.counter import counter_set
from firmware_cmds.objects.scheduling import queue_group
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpType
from layouts.objects import qp as layout
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.objects.queues.pace import Pace
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

    Modify = layout.ToNextStateIn | layout.SameStateIn | layout.BackToRtsIn

_PACED = (QpType.RC, QpType.UC, QpType.UD)


def _transition(
    op: Op, layout_in: type[Prm], layout_out: type[Prm], opened: OpenField | None = None
) -> None:
    """Register the command of one row of the transition table.

    The handler refuses a wrong source state with BAD_QP_STATE_ERR, and unsupported or invalid
    fields with BAD_PARAM_ERR. An unknown QP, or a stream that has not failed, gets
    BAD_RES_STATE_ERR; an unknown counter set or queue group BAD_RES_ERR. A refusal changes nothing.
    ``opened`` describes the extension to the trace.
    """
    row = qp_state.TRANSITIONS[op]
    modifies = "opt_param_mask" in {field.name for field in layout_in.fields}

    def handler(hca: Hca, cmd: Any, out: Any) -> None:
        qp = hca.qps.subject(cmd.qpn)
        if qp.state not in row.sources:
            raise CmdError(
                Status.BAD_QP_STATE_ERR,
                "transition is not allowed from this state",
                f"{qp!r} {qp.state.name}",
            )
        source = qp.state
        what = _checked(hca, op, qp, cmd) if modifies else None
        migrates = what is not None and migration.selects_migration(qp, cmd.qpc, what)
        paces = _requested_paces(hca, qp, cmd) if modifies else None
        counts = what is not None and "counter_set_id" in what.fields
        counter = counter_set(hca.counters, cmd.qpc.counter_set_id) if counts else None
        qp.encode()
        if what is not None:
            _apply_extension(qp, cmd)
            qp_state.apply(qp.ctx, cmd.qpc, what)
            qp.has_alternate |= what.has_alternate
            if migrates:
                migration.take_alternate(qp)
        if counts:
            qp.count_into(counter)
        if paces is not None:
            hca.qps.change(qp, partial(qp.keep_to, *paces))
            hca.scheduler.schedule(qp)
        qp.state = row.target
        qp_life.apply_transition(hca, qp, source)

    handler.__name__ = layout_in.__name__.removesuffix("_in")
    handler.__doc__ = f"From {row}."
    add(Command(op, layout_in, layout_out, handler, HcaState.INITIALIZED, opened))


def _checked(hca: Hca, op: Op, qp: Qp, cmd: Modify) -> qp_state.Selection:
    """Return the fields that the command takes from its qpc, after all checks.

    Raises BAD_PARAM_ERR for an unsupported mask bit or an invalid value, BAD_RES_STATE_ERR for a
    stream that has not failed.
    """
    high_mask = cmd.opt_param_mask_95_32 if isinstance(cmd, layout.SameStateIn) else 0
    what = qp_state.selection(op, cmd.opt_param_mask, high_mask)
    attributes.check(hca.link, hca.caps, op, qp, cmd.qpc, what)
    if isinstance(cmd, layout.rts2rts_qp_in) and high_mask & qp_state.DCI_STREAM_CHANNEL_ID:
        _check_stream(qp, cmd)
    if high_mask & qp_state.MMO and not hca.caps.general.dma_mmo_qp:
        raise BadParamError("memory-to-memory operations are not supported")
    return what


def _apply_extension(qp: Qp, cmd: Modify) -> None:
    """Resume a stream and set ``has_mmo``, as opt_param_mask_95_32 says; both are checked.

    Do nothing for a command without that mask.
    """
    if not isinstance(cmd, layout.SameStateIn):
        return
    ext = _given_extension(cmd)
    if cmd.opt_param_mask_95_32 & qp_state.DCI_STREAM_CHANNEL_ID and qp.streams is not None:
        qp.streams.failed.discard(ext.dci_stream_channel_id)
    if cmd.opt_param_mask_95_32 & qp_state.MMO:
        qp.has_mmo = bool(ext.mmo)


def _requested_paces(
    tables: ObjectTables, qp: Qp, cmd: Modify
) -> tuple[Pace | None, Pace | None] | None:
    """Return the rates of the queue groups that the queue pair joins; None for no change.

    The pair is requester and responder; None in it means no group. Only the responder of RC may
    have one (mlx5dv_modify_qp_sched_elem(3)). Raises BAD_PARAM_ERR where no group is possible,
    BAD_RES_ERR for an unknown group.
    """
    if (
        not isinstance(cmd, layout.SameStateIn)
        or not cmd.opt_param_mask_95_32 & qp_state.QOS_QUEUE_GROUP_ID
    ):
        return None
    if not tables.caps.qos.nic_qp_scheduling or qp.st not in _PACED:
        raise BadParamError("queue pair cannot be in a queue group", f"{qp!r}")
    ext = _given_extension(cmd)
    ids = ext.qos_queue_group_id_requester, ext.qos_queue_group_id_responder
    if ids[1] and qp.st is not QpType.RC:
        raise BadParamError("only the responder of RC can be rate limited", f"{qp!r}")
    requester, responder = (queue_group(tables.scheduling_elements, number) for number in ids)
    return pacing.pace_by(requester), pacing.pace_by(responder)


def _given_extension(cmd: layout.SameStateIn) -> layout.qpc_ext:
    """Return the command's extension of the context; one of zeros without ``qpc_ext``."""
    return layout.qpc_ext.view(cmd.qpc_data_ext) if cmd.qpc_ext else layout.qpc_ext.new()


def _check_stream(qp: Qp, cmd: layout.rts2rts_qp_in) -> None:
    """Refuse with BAD_RES_STATE_ERR to resume a stream that has not failed."""
    number = layout.qpc_ext.view(bytearray(cmd.qpc_data_ext)).dci_stream_channel_id
    if not cmd.qpc_ext or qp.streams is None or number not in qp.streams.failed:
        raise CmdError(Status.BAD_RES_STATE_ERR, "stream has not failed", f"{number}")


_EXTENSION = OpenField("qpc_data_ext", lambda cmd: layout.qpc_ext if cmd.qpc_ext else None)
_transition(Op.RST2INIT_QP, layout.rst2init_qp_in, layout.rst2init_qp_out)
_transition(Op.INIT2INIT_QP, layout.init2init_qp_in, layout.init2init_qp_out, _EXTENSION)
_transition(Op.INIT2RTR_QP, layout.init2rtr_qp_in, layout.init2rtr_qp_out)
_transition(Op.RTR2RTS_QP, layout.rtr2rts_qp_in, layout.rtr2rts_qp_out)
_transition(Op.RTS2RTS_QP, layout.rts2rts_qp_in, layout.rts2rts_qp_out, _EXTENSION)
_transition(Op.SQERR2RTS_QP, layout.sqerr2rts_qp_in, layout.sqerr2rts_qp_out)
_transition(Op.SQD_RTS_QP, layout.sqd2rts_qp_in, layout.sqd2rts_qp_out)
_transition(Op._2ERR_QP, layout.qp_2err_in, layout.qp_2err_out)
_transition(Op._2RST_QP, layout.qp_2rst_in, layout.qp_2rst_out)
