"""Rate limits of a function: packet pacing of its send queues, and the limits of its RoCE."""

from __future__ import annotations

from emu.device.objects.eth.pacing import Pacing, RateLimit
from emu.device.rounds.backlog import Backlog, Contain
from emu.device.rounds.budget import Budget


class Rates:
    """The rate limits of one function, and the send queues that have to look them up again."""

    __slots__ = ("have_changed", "limits", "repacing", "roce", "roce_class")

    def __init__(self, budget: Budget, contain: Contain) -> None:
        """Create no limits; ``contain`` makes the deferred calls."""
        self.limits: dict[int, RateLimit] = {}
        """The table of packet pacing, by index."""
        self.repacing = Backlog(budget, contain)
        """Send queues that look up their rate limits again."""
        self.have_changed = False
        """Whether a rate has changed since ``repacing`` started."""
        self.roce: Pacing | None = None
        """Rate limits of the function's RoCE; None while its vPort has no scheduling element."""
        self.roce_class = 0
        """The traffic class of RoCE's latest frame, while the vPort has rates by traffic class."""
