"""DC targets: create, query, drain, destroy (hw/qpc.c: mlx5_core_create_dct and its neighbours)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.events import eq as eq_engine
from emu.device.engine.qp import attributes
from emu.device.engine.rc.dynamic import end_some
from emu.device.errors import BadParamError
from emu.device.objects.object import DRIVER_UID, holding
from emu.device.objects.queues.dct import Dct
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.wq import response_scatter, user_index
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.objects import dct as layout
from layouts.rings.eqe import eqe_dct

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_EVENT = eqe_dct.packer("dctn")


@command(Op.CREATE_DCT)
def create_dct(hca: Hca, cmd: layout.create_dct_in, out: layout.create_dct_out) -> None:
    """Create a target, which receives messages at once.

    Refuse with BAD_PARAM_ERR an invalid port, pkey_index, my_addr_index or MTU code, a tag matching
    XRQ, and rlky of a process. An SRQ is required.
    """
    ctx = cmd.dct_context_entry.copy()
    if ctx.port:  # UCX leaves it 0; a driver with LAG chooses one
        attributes.check_port(hca.caps, ctx.port)
    attributes.check_pkey_index(hca.caps, ctx.pkey_index)
    hca.link.check_source(ctx.my_addr_index)
    if ctx.mtu not in attributes.MTU_CODES:
        raise BadParamError("MTU is not one of IBTA's codes", f"{ctx.mtu}")
    if ctx.rlky and hca.caller.uid != DRIVER_UID:
        raise BadParamError("only the driver may use the reserved lkey")
    number = ctx.counter_set_id
    srq = hca.srqs.need(ctx.srqn_xrqn)
    if srq.tags is not None:
        raise BadParamError("tag matching is for RC", f"{srq!r}")
    dct = Dct(
        ctx,
        pd=hca.pds.need(ctx.pd),
        srq=srq,
        cq=hca.cqs.need(ctx.cqn),
        counter=hca.counters.need(number) if number else None,
    )
    dct.uidx = user_index(hca.caps, ctx.user_index)
    dct.cs_res = response_scatter(hca.caps, ctx.cs_res)
    out.dctn = hca.dcts.add(dct)


@command(Op.QUERY_DCT)
def query_dct(tables: ObjectTables, cmd: layout.query_dct_in, out: layout.query_dct_out) -> None:
    """Return the current context."""
    out.dct_context_entry = tables.dcts.need(cmd.dctn).encode()


@command(Op.DRAIN_DCT)
def drain_dct(hca: Hca, cmd: layout.drain_dct_in, out: layout.drain_dct_out) -> None:
    """Stop receiving messages. The driver waits for the event that none is in progress.

    New messages are refused from now on, but DCT_DRAINED is raised at once.
    """
    dct = hca.dcts.subject(cmd.dctn)
    dct.is_drained = True
    eq_engine.raise_event(hca.events, EventType.DCT_DRAINED, _EVENT.pack(dct.handle))


@command(Op.DESTROY_DCT)
def destroy_dct(
    tables: ObjectTables, cmd: layout.destroy_dct_in, out: layout.destroy_dct_out
) -> Portions[None]:
    """Destroy the target; an initiator with an unfinished message gets no response.

    A target may have one responder for each initiator of all functions. Their responders are ended
    over several rounds.
    """
    dct = tables.dcts.removable(cmd.dctn)
    dct.is_drained = True
    with holding(dct):
        while end_some(dct):
            yield
    tables.dcts.remove(cmd.dctn)
