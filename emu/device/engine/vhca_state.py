"""State machine of a sub-function, and its event to the manager.

    INVALID -> ALLOCATED -> ACTIVE -> IN_USE -> TEARDOWN_REQUEST -> ALLOCATED -> INVALID

The manager allocates a sub-function, enables it (ACTIVE) and disables it. In between the
sub-function's own driver takes it into use by ENABLE_HCA. If the manager disables it then, its
driver is only asked to leave. The manager gets an event for each change once it has armed the
sub-function. Events and capabilities below are the manager's.

Source: PRM "vHCA state"; core/sf/devlink.c, core/sf/dev/dev.c, core/sf/vhca_event.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.state.points import FaultPoint
from emu.device.state.sub_functions import SubFunction
from layouts.enums.cmd import Status
from layouts.enums.eqe import EventType
from layouts.enums.hca import VhcaState
from layouts.rings.eqe import eqe_vhca_state

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca

VHCA_STATE_POINT: FaultPoint[[SubFunction[Hca], VhcaState], None] = FaultPoint("vhca_state")


def enable(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Let the sub-function's driver start (ACTIVE); raise BAD_SYS_STATE_ERR unless ALLOCATED."""
    if one.state is not VhcaState.ALLOCATED:
        raise _wrong(one)
    change(one, events, caps, VhcaState.ACTIVE)


def disable(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Disable an ACTIVE sub-function; ask the driver of one IN_USE to leave (TEARDOWN_REQUEST).

    In any other state do nothing.
    """
    if one.state is VhcaState.ACTIVE:
        change(one, events, caps, VhcaState.ALLOCATED)
    elif one.state is VhcaState.IN_USE:
        change(one, events, caps, VhcaState.TEARDOWN_REQUEST)


def check_entry(one: SubFunction[Hca]) -> None:
    """Raise BAD_SYS_STATE_ERR unless the sub-function is ACTIVE or IN_USE; change nothing."""
    if one.state not in (VhcaState.ACTIVE, VhcaState.IN_USE):
        raise _wrong(one)


def driver_started(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Move from ACTIVE to IN_USE: the sub-function's own driver has started. Else do nothing."""
    if one.state is VhcaState.ACTIVE:
        change(one, events, caps, VhcaState.IN_USE)


def driver_ended(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Record that the sub-function's own driver has ended; do nothing unless it was running.

    IN_USE becomes ACTIVE. TEARDOWN_REQUEST becomes ALLOCATED.
    """
    if one.state is VhcaState.IN_USE:
        change(one, events, caps, VhcaState.ACTIVE)
    elif one.state is VhcaState.TEARDOWN_REQUEST:
        change(one, events, caps, VhcaState.ALLOCATED)


def change(one: SubFunction[Hca], events: Events, caps: Caps, state: VhcaState) -> None:
    """Move to a new state and report it if armed (see :func:`take`).

    A fault plan may delay the move, except to or from INVALID.
    """
    faults = events.probes.faults
    if faults is None or VhcaState.INVALID in (one.state, state):
        take(one, events, caps, state)
    else:
        faults.show(VHCA_STATE_POINT, one, state)


def take(one: SubFunction[Hca], events: Events, caps: Caps, state: VhcaState) -> None:
    """Set the state; raise the manager's event if the sub-function is armed and it is enabled."""
    one.state = state
    if one.armed:
        raise_state_event(one, events, caps)


def arm(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Enable the manager's event for the next change; raise it at once for an unreported change.

    The manager queries the state before it arms, so a change may lie between the two
    (core/sf/vhca_event.c: mlx5_vhca_event_notify).
    """
    one.armed = True
    if one.reported is not one.state:
        raise_state_event(one, events, caps)


def raise_state_event(one: SubFunction[Hca], events: Events, caps: Caps) -> None:
    """Raise VHCA_STATE_CHANGE at the manager and disarm; do nothing if the state's event is off.

    The event is off where the manager lacks vhca_state or the state's event_on_vhca_state
    capability.
    """
    general = caps.general
    if not (
        general.vhca_state and getattr(general, f"event_on_vhca_state_{one.state.name.lower()}")
    ):
        return
    one.armed = False
    one.reported = one.state
    data = eqe_vhca_state.new(function_id=one.number)
    eq_engine.raise_event(events, EventType.VHCA_STATE_CHANGE, bytes(data))


def _wrong(one: SubFunction[Hca]) -> CmdError:
    return CmdError(
        Status.BAD_SYS_STATE_ERR, "sub-function is not in the required state",
        f"function_id {one.number:#x} is {one.state.name}",
    )  # fmt: skip
