"""Automatic path migration: a connected queue pair changes to its alternate path (IBTA 17.2.8).

A queue pair with a loaded alternate path is MIGRATED, REARM or ARMED (qpc.pm_state). Commands set
REARM; the queue pair becomes ARMED when its peer's packets show that the peer is. An armed queue
pair migrates when its requests get no response any more, when the peer has migrated, or by command.
The alternate path is then the primary one, and a new alternate one has to be loaded.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import raise_qp_event
from emu.device.engine.qp.transitions import Selection
from emu.device.errors import BadParamError
from layouts.enums.eqe import EventType
from layouts.enums.qp import PmState

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.hca import Hca
    from layouts.objects.qp import qpc

log = logging.getLogger(__name__)


def selects_migration(qp: Qp, given: qpc, what: Selection) -> bool:
    """Return whether a command that takes ``what`` makes the queue pair migrate.

    True only for MIGRATED selected in ARMED. Raises BAD_PARAM_ERR for an undefined pm_state that
    the command selects. Without an alternate path pm_state is ignored: iPXE's golan.c selects
    ARMED, which is 0. The queue pair is unchanged.
    """
    if not what.chooses_pm_state:
        return False
    if given.pm_state not in PmState._value2member_map_:
        raise BadParamError("no such pm_state", f"{given.pm_state}")
    return qp.path_state is PmState.ARMED and given.pm_state == PmState.MIGRATED


def take_alternate(qp: Qp) -> None:
    """Copy the alternate path over the primary one in the context; pm_state is then MIGRATED.

    The queue pair has no alternate path any more. The caller applies the context
    (``lifecycle.apply_transition``).
    """
    qp.ctx.primary_address_path = bytes(qp.ctx.secondary_address_path)
    qp.ctx.pm_state = PmState.MIGRATED
    qp.has_alternate = False


def migrate(hca: Hca, qp: Qp, why: str) -> None:
    """Change to the alternate path because of an error or packet; raise PATH_MIG.

    The caller has checked that the queue pair is ARMED. The state stays, and the retry count
    restarts at 0.
    """
    log.info("%r: migrates to its alternate path: %s", qp, why)
    qp.encode()
    take_alternate(qp)
    qp_life.apply_transition(hca, qp, qp.state)
    qp.retries = 0
    raise_qp_event(hca.events, qp, EventType.PATH_MIG)


def try_migrate(hca: Hca, qp: Qp, why: str) -> bool:
    """Migrate an ARMED queue pair whose peer does not respond; return whether it was ARMED.

    False leaves the queue pair unchanged: it has no other path.
    """
    if qp.path_state is not PmState.ARMED:
        return False
    migrate(hca, qp, why)
    return True
