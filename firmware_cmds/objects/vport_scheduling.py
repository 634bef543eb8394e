"""Scheduling elements of an embedded switch: vPorts, their traffic classes and rate limiters.

``devlink port function rate set ... tc-bw`` arbitrates between traffic classes: below an arbiter
(TC_ARB) is a TSAR for each class, and below that a leaf of this class for each vPort. Where several
vPorts share the arbiter, the leaves of each name a rate limiter by max_bw_obj_id (core/esw/qos.c:
esw_qos_vport_tc_enable).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.eth.pacing import SchedulingElement

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.objects.table import Table
    from emu.device.state.eswitch import Eswitch, EswVport
    from emu.device.state.hca import Hca
    from layouts.objects.scheduling import scheduling_context

TSAR: Final = 0
VPORT: Final = 1
VPORT_TC: Final = 2
RATE_LIMIT: Final = 5
"""Values of scheduling_context.element_type (SCHEDULING_CONTEXT_ELEMENT_TYPE_*)."""
DWRR: Final = 0
TC_ARB: Final = 3
"""Values of tsar_element.tsar_type (TSAR_ELEMENT_TSAR_TYPE_*)."""

VPORTS: Final = (VPORT, VPORT_TC)
"""Element types of leaves."""

_VPORT_NUMBER: Final = 0xFFFF
"""Bits of element_attributes with the vPort number (vport_element, vport_tc_element)."""
_CLASS_SHIFT: Final = 28
_TSAR_TYPE_SHIFT, _BYTE = 16, 0xFF


def tsar_type(ctx: scheduling_context) -> int:
    """Return the kind of a TSAR."""
    return ctx.element_attributes >> _TSAR_TYPE_SHIFT & _BYTE


def check_parent(ctx: scheduling_context, parent: SchedulingElement | None) -> None:
    """Refuse with BAD_PARAM_ERR an element that does not belong below this parent.

    An arbiter has TSARs of different classes below it, which have leaves of their class. A rate
    limiter has no parent.
    """
    arbiter = parent if parent is not None and _arbitrates(parent) else None
    if arbiter is not None and (ctx.element_type != TSAR or tsar_type(ctx) != DWRR):
        raise BadParamError("an arbiter of traffic classes has only their TSARs")
    if ctx.element_type == RATE_LIMIT and parent is not None:
        raise BadParamError("a rate limiter has no parent")
    above = parent.parent if parent is not None else None
    is_of_class = above is not None and _arbitrates(above)
    if is_of_class != (ctx.element_type == VPORT_TC):
        raise BadParamError("the TSAR of a traffic class has leaves of that class")
    if parent is not None and is_of_class and _class_of(ctx) != _class_of(parent.ctx):
        raise BadParamError("traffic_class is not that of the TSAR", f"{_class_of(ctx)}")


def free_place(eswitch: Eswitch, vhca: Vhca[Hca], ctx: scheduling_context) -> EswVport:
    """Return the vPort of a new leaf, which has none for these packets.

    Refuse with BAD_PARAM_ERR a vPort that the adapter does not have, or that has such a leaf.
    """
    number = ctx.element_attributes & _VPORT_NUMBER
    if not vhca.sees(number):
        raise BadParamError("no such vport", f"{number}")
    vport = eswitch.vport(number)
    present = vport.leaf(_class_of(ctx))
    if present is None and ctx.element_type == VPORT:
        present = next(iter(vport.classes.values()), None)
    if present is not None:
        raise BadParamError("vPort already has a scheduling element", f"{present!r}")
    return vport


def rate_limiter(
    elements: Table[SchedulingElement], ctx: scheduling_context
) -> SchedulingElement | None:
    """Return the rate limiter that a leaf of a traffic class names; None without one.

    Raises BAD_RES_ERR for an unknown number, BAD_PARAM_ERR for an element of another type.
    """
    if ctx.element_type != VPORT_TC or not ctx.max_bw_obj_id:
        return None
    limiter = elements.need(ctx.max_bw_obj_id)
    if limiter.ctx.element_type != RATE_LIMIT:
        raise BadParamError("max_bw_obj_id is not a rate limiter", f"{limiter!r}")
    return limiter


def attach(vport: EswVport, element: SchedulingElement) -> None:
    """Let a leaf limit its vPort, or one traffic class of it."""
    if element.ctx.element_type == VPORT:
        vport.element = element
    else:
        vport.classes[_class_of(element.ctx)] = element


def detach(eswitch: Eswitch, element: SchedulingElement) -> None:
    """Remove the limits of a leaf from its vPort."""
    vport = eswitch.vport(element.ctx.element_attributes & _VPORT_NUMBER)
    if element.ctx.element_type == VPORT:
        vport.element = None
    else:
        del vport.classes[_class_of(element.ctx)]


def _arbitrates(element: SchedulingElement) -> bool:
    return element.ctx.element_type == TSAR and tsar_type(element.ctx) == TC_ARB


def _class_of(ctx: scheduling_context) -> int:
    return ctx.element_attributes >> _CLASS_SHIFT
