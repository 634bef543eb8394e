"""Queue pairs limited to the rate of a queue group (mlx5dv_modify_qp_sched_elem(3)).

A group for the requester limits the bytes that a queue pair sends. A group for the responder limits
its READ response data. The limits are checked before and after each poll; sent bytes are charged.

Source: rdma-core providers/mlx5/mlx5.c (modify_ib_qp_sched_elem).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.device.objects.eth.pacing import Pacing, SchedulingElement, Terms
from emu.device.objects.queues.pace import Pace

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.ports import Clock
    from emu.device.state.parts.scheduler import Scheduler


def pace_by(group: SchedulingElement | None) -> Pace | None:
    """Return the pacing of one side of a queue pair by a group; None without a group."""
    return None if group is None else Pace(group, Pacing(Terms(None, None, (group,))))


def paced(scheduler: Scheduler, clock: Clock, qp: Qp, pace: Pace, send: Callable[[], bool]) -> bool:
    """Poll one side of a queue pair by ``send``, if its rate allows that now.

    Returns True when more can be sent at once; False when ``send`` has no more or the rate makes it
    wait. A timer schedules the queue pair after the wait; ``send`` is not called before.
    """
    if _waits(scheduler, clock, qp, pace):
        return False
    if not send():
        pace.pacing.stop_waiting()
        return False
    return not _waits(scheduler, clock, qp, pace)


def _waits(scheduler: Scheduler, clock: Clock, qp: Qp, pace: Pace) -> bool:
    """Return whether the rate forbids sending now; if so, a timer schedules the queue pair."""
    if pace.timer is not None:
        return True
    delay = pace.pacing.delay(clock.now_ns())
    if not delay:
        return False

    def go_on() -> None:
        pace.timer = None
        scheduler.schedule(qp)

    pace.timer = clock.call_later(delay, go_on)
    return True
