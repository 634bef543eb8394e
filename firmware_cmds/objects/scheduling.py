"""Rates of send queues: packet pacing and scheduling elements (PRM "QoS commands").

``tx_maxrate`` of a queue uses an entry of the pacing table, ``tc ... htb offload`` a tree of
elements (core/rl.c, core/qos.c, core/en/htb.c). ``devlink port function rate`` uses the E-Switch's
own tree, whose leaves are vPorts (core/esw/qos.c). The function has one pacing table, which
includes the entries of its processes (ib/qos.c: pp_obj_alloc).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth import pacing
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.pacing import MAX_DEPTH, RateLimit, SchedulingElement
from firmware_cmds.given_object import given_object
from firmware_cmds.objects import vport_scheduling
from firmware_cmds.objects.vport_scheduling import DWRR, RATE_LIMIT, TC_ARB, TSAR, VPORTS
from layouts.enums.cmd import Op, Status
from layouts.objects import scheduling as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in, modify_general_object_in

E_SWITCH, NIC = 2, 3
"""Values of scheduling_hierarchy (SCHEDULING_HIERARCHY_*)."""
QUEUE_GROUP = 4
"""Value of scheduling_context.element_type, as those of ``vport_scheduling``."""
_TYPES = {E_SWITCH: (TSAR, *VPORTS, RATE_LIMIT), NIC: (TSAR, QUEUE_GROUP)}
"""Element types of each tree."""
_TSARS = {E_SWITCH: (DWRR, TC_ARB), NIC: (DWRR,)}
"""Kinds of TSARs of each tree."""
_BW_SHARE, _MAX_AVERAGE_BW = 1, 2
"""Bits of modify_bitmask."""


@command(Op.SET_PP_RATE_LIMIT)
def set_pp_rate_limit(
    hca: Hca, cmd: layout.set_pp_rate_limit_in, out: layout.set_pp_rate_limit_out
) -> None:
    """Set an entry of the pacing table, or remove it (rate 0).

    Entry 0 means no limit. A removed entry also means no limit for the queues that still name it:
    the driver removes it before it changes them (core/en_main.c: mlx5e_set_sq_maxrate). Queues take
    the new rate over the next rounds. Refuse without the capability packet_pacing with BAD_OP_ERR,
    an unknown index or a rate out of range (kb/s) with BAD_PARAM_ERR.
    """
    caps, index, rate = hca.caps.qos, cmd.rate_limit_index, cmd.ctx.rate_limit
    if not caps.packet_pacing:
        raise CmdError(Status.BAD_OP_ERR, "packet pacing is not supported")
    if not 0 < index < caps.packet_pacing_rate_table_size:
        raise BadParamError("no such entry of the pacing table", f"{index}")
    low, high = caps.packet_pacing_min_rate, caps.packet_pacing_max_rate
    if rate and not low <= rate <= high:
        raise BadParamError("rate out of range", f"{rate} kb/s")
    if rate:
        hca.rates.limits[index] = RateLimit(rate, cmd.ctx.burst_upper_bound)
    else:
        hca.rates.limits.pop(index, None)
    pacing.apply_to_all(hca)


@command(Op.CREATE_SCHEDULING_ELEMENT, privileged=True)
def create_scheduling_element(
    hca: Hca, cmd: layout.create_scheduling_element_in, out: layout.create_scheduling_element_out
) -> None:
    """Create a scheduling element; see :func:`_create_element`.

    The element is a TSAR, a leaf or a rate limiter of the tree scheduling_hierarchy. Refuse an
    unsupported type or parent with BAD_PARAM_ERR, a tree that is too deep with LIM_ERR.
    """
    out.scheduling_element_id = _create_element(
        hca, cmd.scheduling_hierarchy, cmd.scheduling_context
    )


def create(hca: Hca, cmd: create_general_object_in) -> int:
    """Create an element of the function's own tree as a general object; return its number.

    Processes create theirs by this command (rdma-core: mlx5dv_sched_nic_create), below elements of
    their own. Raises LIM_ERR for more than one element, BAD_PARAM_ERR for the switch's tree, and as
    :func:`_create_element`.
    """
    obj = _object(cmd.object)
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one scheduling element")
    return _create_element(hca, obj.scheduling_hierarchy, obj.sched_context)


def modify(hca: Hca, cmd: modify_general_object_in) -> None:
    """Change the fields of an element that modify_field_select names.

    Raises BAD_PARAM_ERR for an element of the switch's tree, and as :func:`_change`.
    """
    obj = _object(cmd.object)
    _change(hca, obj.scheduling_hierarchy, cmd.obj_id, obj.modify_field_select, obj.sched_context)


def destroy(hca: Hca, number: int) -> None:
    """Destroy an element; refused while another element or a send queue is below it.

    An element of the switch's tree gets BAD_RES_ERR.
    """
    _remove(hca, NIC, number)


def _object(given: Iterable[bytes]) -> layout.sched_elem:
    """Return the sched_elem in a command; raise BAD_PARAM_ERR unless its hierarchy is NIC."""
    obj = layout.sched_elem.view(given_object(given, layout.sched_elem.size))
    if obj.scheduling_hierarchy != NIC:
        raise BadParamError(
            "a general object cannot be an element of the switch's tree",
            f"{obj.scheduling_hierarchy}",
        )  # fmt: skip
    return obj


def _create_element(hca: Hca, hierarchy: int, given: layout.scheduling_context) -> int:
    """Create a TSAR, a leaf or a rate limiter; return its number.

    Without a parent (0) the element is the root of a tree. A vPort, or each traffic class of it,
    has one element at most; its rate is applied. Raises BAD_PARAM_ERR for an unsupported type or
    parent, LIM_ERR for a tree that is too deep, BAD_OP_ERR without the capability, BAD_RES_ERR for
    an unknown parent or rate limiter.
    """
    _check(hca, hierarchy)
    ctx = given.copy()
    kind = vport_scheduling.tsar_type(ctx)
    if ctx.element_type not in _TYPES[hierarchy] or (
        ctx.element_type == TSAR and kind not in _TSARS[hierarchy]
    ):
        raise BadParamError(
            "scheduling element of this type is not supported",
            f"element_type {ctx.element_type}, tsar_type {kind}",
        )  # fmt: skip
    parent = None
    if ctx.parent_element_id:
        parent = hca.scheduling_elements.need(ctx.parent_element_id)
        _check_tree(parent, hierarchy)
        if parent.ctx.element_type != TSAR:
            raise BadParamError("parent_element_id is not a TSAR")
        depth = sum(1 for _ in parent.up()) + (ctx.element_type not in VPORTS)
        if depth > _max_depth(hca.caps, hierarchy):
            raise CmdError(Status.LIM_ERR, "scheduling tree is too deep")
    if hierarchy == E_SWITCH:
        vport_scheduling.check_parent(ctx, parent)
    _check_share(hca.caps, ctx)
    vport = None
    if ctx.element_type in VPORTS:
        assert hca.eswitch is not None  # has been checked with the hierarchy
        vport = vport_scheduling.free_place(hca.eswitch, hca.vhca, ctx)
    limiter = vport_scheduling.rate_limiter(hca.scheduling_elements, ctx)
    element = SchedulingElement(ctx, parent, hierarchy, limiter)
    number = hca.scheduling_elements.add(element)
    if vport is not None:
        vport_scheduling.attach(vport, element)
        _repace_queues(hca, element)
    return number


def queue_group(elements: Table[SchedulingElement], number: int) -> SchedulingElement | None:
    """Return the queue group with this number; None for 0.

    Raises BAD_RES_ERR for an unknown number, BAD_PARAM_ERR for an element of another type.
    """
    if not number:
        return None
    element = elements.need(number)
    if element.ctx.element_type != QUEUE_GROUP:
        raise BadParamError("scheduling element is not a queue group", f"{element.handle:#x}")
    return element


def _max_depth(caps: Caps, hierarchy: int) -> int:
    return 1 << caps.qos.log_esw_max_sched_depth if hierarchy == E_SWITCH else MAX_DEPTH


def _check(tables: ObjectTables, hierarchy: int) -> None:
    """Refuse a tree that the function does not have with BAD_PARAM_ERR.

    A function without any tree gets BAD_OP_ERR.
    """
    qos = tables.caps.qos
    if not (qos.nic_sq_scheduling or qos.esw_scheduling):
        raise CmdError(Status.BAD_OP_ERR, "scheduling elements are not supported")
    is_there = {NIC: qos.nic_sq_scheduling, E_SWITCH: qos.esw_scheduling and tables.eswitch}
    if not is_there.get(hierarchy):
        raise BadParamError("scheduling_hierarchy not supported", f"{hierarchy}")


def _check_tree(element: SchedulingElement, hierarchy: int) -> None:
    """Refuse with BAD_RES_ERR an element that belongs to another hierarchy."""
    if element.hierarchy != hierarchy:
        raise CmdError(
            Status.BAD_RES_ERR, "scheduling element is of another hierarchy", f"{element!r}"
        )


def _repace_queues(hca: Hca, element: SchedulingElement) -> None:
    """Apply a changed element to the send queues that it limits, over the next rounds.

    An element of the NIC's tree changes this function, one of the switch's tree all functions of
    the adapter.
    """
    if element.hierarchy == NIC:
        pacing.apply_to_all(hca)
        return
    for node in [*hca.vhca.adapter.nodes()]:
        pacing.apply_to_all(node)


def _check_share(caps: Caps, ctx: layout.scheduling_context) -> None:
    if ctx.bw_share > caps.qos.max_tsar_bw_share:
        raise BadParamError("bw_share above its maximum", f"{ctx.bw_share}")


@command(Op.MODIFY_SCHEDULING_ELEMENT, privileged=True)
def modify_scheduling_element(
    hca: Hca, cmd: layout.modify_scheduling_element_in, out: layout.modify_scheduling_element_out
) -> None:
    """Change share and limit where the bitmask selects them.

    A new limit is applied to the queues; a new share counts from the next packet. Refuse with
    BAD_PARAM_ERR an unknown bit or a share above max_tsar_bw_share.
    """
    number, mask = cmd.scheduling_element_id, cmd.modify_bitmask
    _change(hca, cmd.scheduling_hierarchy, number, mask, cmd.scheduling_context)


def _change(
    hca: Hca, hierarchy: int, number: int, mask: int, given: layout.scheduling_context
) -> None:
    """Change bw_share and max_average_bw where ``mask`` selects them.

    A new limit is applied to the queues. Raises BAD_RES_STATE_ERR for an unknown element,
    BAD_RES_ERR for another hierarchy, BAD_PARAM_ERR for an unknown bit or a share that is too
    large.
    """
    _check(hca, hierarchy)
    element = hca.scheduling_elements.subject(number)
    _check_tree(element, hierarchy)
    if unknown := mask & ~(_BW_SHARE | _MAX_AVERAGE_BW):
        raise BadParamError("scheduling element field cannot be modified", f"{unknown:#x}")
    if mask & _BW_SHARE:
        _check_share(hca.caps, given)
        element.ctx.bw_share = given.bw_share
        element.decode_share()
    if mask & _MAX_AVERAGE_BW:
        element.ctx.max_average_bw = given.max_average_bw
        element.decode_limit()
        _repace_queues(hca, element)


@command(Op.QUERY_SCHEDULING_ELEMENT, privileged=True)
def query_scheduling_element(
    tables: ObjectTables,
    cmd: layout.query_scheduling_element_in,
    out: layout.query_scheduling_element_out,
) -> None:
    """Return the current context.

    An element of another hierarchy gets BAD_RES_ERR.
    """
    _check(tables, cmd.scheduling_hierarchy)
    element = tables.scheduling_elements.need(cmd.scheduling_element_id)
    _check_tree(element, cmd.scheduling_hierarchy)
    out.scheduling_context = bytes(element.ctx)


@command(Op.DESTROY_SCHEDULING_ELEMENT, privileged=True)
def destroy_scheduling_element(
    hca: Hca, cmd: layout.destroy_scheduling_element_in, out: layout.destroy_scheduling_element_out
) -> None:
    """Destroy the element; refused while another element or a send queue is below it.

    An element of another hierarchy gets BAD_RES_ERR. A vPort then has no limit.
    """
    _remove(hca, cmd.scheduling_hierarchy, cmd.scheduling_element_id)


def _remove(hca: Hca, hierarchy: int, number: int) -> None:
    """Destroy an element; a vPort then has no limit, and its queues resume.

    Raises BAD_RES_STATE_ERR for an unknown number or an element in use, BAD_RES_ERR for another
    hierarchy.
    """
    _check(hca, hierarchy)
    element = hca.scheduling_elements.removable(number)
    _check_tree(element, hierarchy)
    hca.scheduling_elements.remove(element.handle)
    if element.ctx.element_type in VPORTS:
        assert hca.eswitch is not None
        vport_scheduling.detach(hca.eswitch, element)
        _repace_queues(hca, element)
