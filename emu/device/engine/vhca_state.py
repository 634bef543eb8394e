"""How far a sub-function has come: what takes it from one state to the next.

    INVALID -> ALLOCATED -> ACTIVE -> IN_USE -> TEARDOWN_REQUEST -> ALLOCATED -> INVALID

The manager allocates it, enables it (ACTIVE) and disables it; between this it belongs to its own
driver, whose ENABLE_HCA takes it into use. When the manager disables it then, its driver is only
asked to leave. Each change is told to the manager once it has armed the number.

Source: PRM "vHCA state"; core/sf/devlink.c, core/sf/dev/dev.c, core/sf/vhca_event.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.state.points import FaultPoint
from emu.device.state.sub_functions import SubFunction
from layouts.enums import EventType, Status
from layouts.eth_enums import VhcaState
from layouts.rings.eqe import eqe_vhca_state

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

VHCA_STATE_POINT: FaultPoint[[SubFunction, VhcaState], None] = FaultPoint("vhca_state")


def enable(one: SubFunction, manager: Hca) -> None:
    """The manager lets its driver begin. Raises BAD_SYS_STATE_ERR."""
    if one.state is not VhcaState.ALLOCATED:
        raise _wrong(one)
    change(one, manager, VhcaState.ACTIVE)


def disable(one: SubFunction, manager: Hca) -> None:
    """The manager wants its driver to leave."""
    if one.state is VhcaState.ACTIVE:
        change(one, manager, VhcaState.ALLOCATED)
    elif one.state is VhcaState.IN_USE:
        change(one, manager, VhcaState.TEARDOWN_REQUEST)


def check_entry(one: SubFunction) -> None:
    """Its own driver begins. Raises BAD_SYS_STATE_ERR before the manager allows that."""
    if one.state not in (VhcaState.ACTIVE, VhcaState.IN_USE):
        raise _wrong(one)


def enter(one: SubFunction, manager: Hca) -> None:
    """Its own driver has begun."""
    if one.state is VhcaState.ACTIVE:
        change(one, manager, VhcaState.IN_USE)


def leave(one: SubFunction, manager: Hca) -> None:
    """Its own driver has gone."""
    if one.state is VhcaState.IN_USE:
        change(one, manager, VhcaState.ACTIVE)
    elif one.state is VhcaState.TEARDOWN_REQUEST:
        change(one, manager, VhcaState.ALLOCATED)


def change(one: SubFunction, manager: Hca, state: VhcaState) -> None:
    """It is in a new state now. Rules may hold up what neither makes nor ends it."""
    faults = manager.faults
    if faults is None or VhcaState.INVALID in (one.state, state):
        take(one, manager, state)
    else:
        faults.show(VHCA_STATE_POINT, one, state)


def take(one: SubFunction, manager: Hca, state: VhcaState) -> None:
    """Tell the manager of a new state, if it wants to know."""
    one.state = state
    if one.armed:
        tell(one, manager)


def arm(one: SubFunction, manager: Hca) -> None:
    """The manager wants to be told of the next change, or of one that it has not seen yet.

    It asks for the state first and arms then, so a change may be between the two
    (core/sf/vhca_event.c: mlx5_vhca_event_notify).
    """
    one.armed = True
    if one.reported is not one.state:
        tell(one, manager)


def tell(one: SubFunction, manager: Hca) -> None:
    """Report the state, if its event has been turned on."""
    general = manager.caps.general
    if not (
        general.vhca_state and getattr(general, f"event_on_vhca_state_{one.state.name.lower()}")
    ):
        return
    one.armed = False
    one.reported = one.state
    data = eqe_vhca_state.new(function_id=one.number)
    eq_engine.raise_event(manager, EventType.VHCA_STATE_CHANGE, bytes(data))


def _wrong(one: SubFunction) -> CmdError:
    return CmdError(
        Status.BAD_SYS_STATE_ERR, "sub-function is in another state",
        f"function_id {one.number:#x} is {one.state.name}",
    )  # fmt: skip
