"""The poll functions of queues, one for each class of queue, registered with ``@polls``.

A doorbell adds its queue to the function's ready list. A poll executes a bounded number of the
queue's requests; a queue with more goes back to the end of the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.objects.queues.queue import Queue
from emu.device.state.hca import Hca

Poll = Callable[[Hca, Any], bool]
"""Execute some of a queue's requests. Return whether there are more."""

POLLS: dict[type[Queue], Poll] = {}
"""Poll function by class of queue."""


def polls(kind: type[Queue]) -> Callable[[Poll], Poll]:
    """Return a decorator that registers a poll function for a class of queue in ``POLLS``.

    The decorator raises ValueError for a second function of the class.
    """

    def register(function: Poll) -> Poll:
        """Register the function and return it. Raises ValueError for a second one of the class."""
        if kind in POLLS:
            raise ValueError(f"{kind.__name__} already has a poll function: {POLLS[kind]}")
        POLLS[kind] = function
        return function

    return register
