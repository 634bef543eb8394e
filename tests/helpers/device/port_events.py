"""Events that a test raises one by one, from outside: by a port's cable."""

from __future__ import annotations

from itertools import cycle

from emu.driver.world.cable import set_link
from layouts.enums.eqe import EventType


def port_event_queue(driver, function, **options):
    """An EQ for PORT_CHANGE; ``raise_one`` pulls the cable, the next call plugs it in again."""
    queue = driver.eqs[driver.create_eq(events=[EventType.PORT_CHANGE], **options)]
    states = cycle((False, True))
    queue.raise_one = lambda: set_link(function.hca, up=next(states))
    return queue
