"""Automatic path migration: a connected queue pair changes to its alternate path (IBTA 17.2.8).

A queue pair for which the driver has loaded an alternate path is migrated, to be rearmed, or armed
(qpc.pm_state). Commands rearm it; it is armed when its peer is, as packets tell each other. From
then on it migrates when its requests get no response any more, when the peer has, or by command.
Its alternate path is then the primary one, and there is no other until one is loaded.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.qp.transitions import Selection
from emu.device.errors import CmdError
from layouts.enums import EventType, PmState, Status

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.hca import Hca
    from layouts.objects.qp import Qpc

log = logging.getLogger(__name__)


def check_state(qp: Qp, given: Qpc, what: Selection) -> bool:
    """Whether a command that takes ``what`` makes the queue pair migrate.

    Raises BAD_PARAM_ERR for a state that there is not. Without an alternate path a state means
    nothing: iPXE's golan.c selects ARMED, which is 0.
    """
    if not what.chooses_pm_state:
        return False
    if given.pm_state not in PmState._value2member_map_:
        raise CmdError(Status.BAD_PARAM_ERR, "no such pm_state", f"{given.pm_state}")
    return qp.path_state is PmState.ARMED and given.pm_state == PmState.MIGRATED


def take_alternate(qp: Qp) -> None:
    """Make the alternate path the primary one in the context."""
    qp.ctx.primary_address_path = bytes(qp.ctx.secondary_address_path)
    qp.ctx.pm_state = PmState.MIGRATED
    qp.has_alternate = False


def migrate(hca: Hca, qp: Qp, why: str) -> None:
    """The device itself changes to the alternate path."""
    log.info("%r: migrates to its alternate path: %s", qp, why)
    qp.encode()
    take_alternate(qp)
    qp_life.entered(hca, qp, qp.state)
    qp.retries = 0
    raise_qp_event(hca, qp, EventType.PATH_MIG)


def escape(hca: Hca, qp: Qp, why: str) -> bool:
    """The peer does not respond any more: migrate. False when the queue pair is not armed."""
    if qp.path_state is not PmState.ARMED:
        return False
    migrate(hca, qp, why)
    return True
