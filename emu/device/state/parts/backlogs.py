"""The backlogs of a function: frames and datagrams that wait for the next rounds."""

from __future__ import annotations

from functools import partial
from typing import Final

from emu.device.objects.ledger import Ledger
from emu.device.rounds.backlog import Backlog, Contain
from emu.device.rounds.budget import Budget

ARRIVALS: Final = "arrivals"
"""Ledger account of ``Backlogs.rx``."""
CROSSING: Final = "crossing"
"""Ledger account of ``Backlogs.esw``."""
EGRESS: Final = "egress"
"""Ledger account of ``Backlogs.egress``."""
SNIFFED: Final = "sniffed"
"""Ledger account of ``Backlogs.sniffed``."""


class Backlogs:
    """The backlogs of one function, each with an account in its ledger."""

    __slots__ = ("egress", "esw", "rx", "sniffed")

    def __init__(self, budget: Budget, contain: Contain, ledger: Ledger) -> None:
        """Create empty backlogs; ``contain`` makes the deferred calls."""
        self.rx = Backlog(budget, contain, partial(ledger.hold, ARRIVALS))
        """Frames and datagrams received by the port."""
        self.esw = Backlog(budget, contain, partial(ledger.hold, CROSSING))
        """Frames received by the switch that the function manages."""
        self.egress = Backlog(budget, contain, partial(ledger.hold, EGRESS))
        """Frames of send queues that wait inside the tables of NIC_TX."""
        self.sniffed = Backlog(budget, contain, partial(ledger.hold, SNIFFED))
        """Frames to be copied to sniffers."""

    def clear(self) -> None:
        """Drop all that waits, and credit the ledger."""
        self.rx.clear()
        self.esw.clear()
        self.egress.clear()
        self.sniffed.clear()
