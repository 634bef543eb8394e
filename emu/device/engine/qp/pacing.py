"""Queue pairs that keep to the rate of a queue group (mlx5dv_modify_qp_sched_elem(3)).

A group for the requester limits what a queue pair sends, one for the responder the data that it
answers READs with. Before a turn and after it the limits are asked; what has been sent is charged.

Source: rdma-core providers/mlx5/mlx5.c (modify_ib_qp_sched_elem).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.device.objects.eth.pacing import Pacing, SchedulingElement, Terms
from emu.device.objects.queues.pace import Pace

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.hca import Hca


def pace_by(group: SchedulingElement | None) -> Pace | None:
    """What keeps a side of a queue pair to the rate of a group; None without a group."""
    return None if group is None else Pace(group, Pacing(Terms(None, None, (group,))))


def paced(hca: Hca, qp: Qp, pace: Pace, send: Callable[[], bool]) -> bool:
    """Let one side of a queue pair ``send`` its share, if its rate allows that now.

    Returns True when there is more and it may be sent at once; a timer schedules the queue pair
    when it has to wait.
    """
    if _waits(hca, qp, pace):
        return False
    if not send():
        pace.pacing.rest()
        return False
    return not _waits(hca, qp, pace)


def _waits(hca: Hca, qp: Qp, pace: Pace) -> bool:
    if pace.timer is not None:
        return True
    delay = pace.pacing.delay(hca.clock.now_ns())
    if not delay:
        return False

    def go_on() -> None:
        pace.timer = None
        hca.schedule(qp)

    pace.timer = hca.clock.call_later(delay, go_on)
    return True
