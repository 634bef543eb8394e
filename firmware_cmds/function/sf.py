"""Sub-functions: allocate and free them, and report their state.

Source: PRM "ALLOC_SF", "MODIFY_VHCA_STATE"; core/sf/cmd.c, core/sf/vhca_event.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine import vhca_state
from emu.device.errors import BadParamError, CmdError
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import VhcaState
from layouts.function import sf as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.sub_functions import SubFunction, SubFunctions


def _all(parts: SubFunctions[Hca] | None) -> SubFunctions[Hca]:
    if parts is None:
        raise BadParamError("function manages no sub-functions")
    return parts


def _named(own: SubFunctions[Hca] | None, number: int) -> SubFunction[Hca]:
    """Return the record of a sub-function's number; raise BAD_PARAM_ERR if there is none."""
    sf = _all(own).find(number)
    if sf is None:
        raise BadParamError("no sub-function has this number", f"function_id {number:#x}")
    return sf


@command(Op.ALLOC_SF, privileged=True)
def alloc_sf(hca: Hca, cmd: layout.alloc_sf_in, out: layout.alloc_sf_out) -> None:
    """Allocate the sub-function with this number, and its vPort; its driver cannot start yet.

    The manager gets VHCA_STATE_CHANGE if armed. Refuse an unknown number with BAD_PARAM_ERR, an
    allocated one with BAD_RES_STATE_ERR.
    """
    one = _named(hca.sub_functions, cmd.function_id)
    if one.state is not VhcaState.INVALID:
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "sub-function exists", f"function_id {one.number:#x}"
        )
    _all(hca.sub_functions).start(one)
    vhca_state.change(one, hca.events, hca.caps, VhcaState.ALLOCATED)


@command(Op.DEALLOC_SF, privileged=True)
def dealloc_sf(hca: Hca, cmd: layout.dealloc_sf_in, out: layout.dealloc_sf_out) -> None:
    """Free a sub-function that is not active.

    Its function ends at once. Refuse one that is active or not allocated with BAD_RES_STATE_ERR, an
    unknown number with BAD_PARAM_ERR.
    """
    one = _named(hca.sub_functions, cmd.function_id)
    if one.state is not VhcaState.ALLOCATED:
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "sub-function does not exist, or is active",
            f"function_id {one.number:#x} is {one.state.name}",
        )  # fmt: skip
    _all(hca.sub_functions).stop(one)
    one.sw_function_id = 0
    vhca_state.change(one, hca.events, hca.caps, VhcaState.INVALID)


@command(Op.QUERY_VHCA_STATE, privileged=True, of_vports=True)
def query_vhca_state(
    hca: Hca, cmd: layout.query_vhca_state_in, out: layout.query_vhca_state_out
) -> None:
    """Return the state of a sub-function, and the driver's own number for it.

    A later arming then reports only newer changes. Refuse an unknown number with BAD_PARAM_ERR.
    """
    one = _checked(hca.sub_functions, cmd)
    one.reported = one.state
    context = out.vhca_state_context
    context.vhca_state = one.state
    context.sw_function_id = one.sw_function_id
    context.arm_change_event = int(one.armed)


@command(Op.MODIFY_VHCA_STATE, privileged=True, of_vports=True)
def modify_vhca_state(
    hca: Hca, cmd: layout.modify_vhca_state_in, out: layout.modify_vhca_state_out
) -> None:
    """Set the driver's own number of a sub-function, or arm the event of its next change.

    A change since the last query is reported at once. Refuse a number for one that is not allocated
    with BAD_RES_STATE_ERR, an unknown one with BAD_PARAM_ERR.
    """
    one, chosen, context = (
        _checked(hca.sub_functions, cmd),
        cmd.vhca_state_field_select,
        cmd.vhca_state_context,
    )
    if chosen.sw_function_id:
        if one.state is VhcaState.INVALID:
            raise CmdError(
                Status.BAD_RES_STATE_ERR, "sub-function does not exist",
                f"function_id {one.number:#x}",
            )  # fmt: skip
        one.sw_function_id = context.sw_function_id
    if chosen.arm_change_event:
        if context.arm_change_event:
            vhca_state.arm(one, hca.events, hca.caps)
        else:
            one.armed = False


def _checked(
    own: SubFunctions[Hca] | None, cmd: layout.query_vhca_state_in | layout.modify_vhca_state_in
) -> SubFunction[Hca]:
    if cmd.embedded_cpu_function:
        raise BadParamError("there is no embedded CPU")
    return _named(own, cmd.function_id)
