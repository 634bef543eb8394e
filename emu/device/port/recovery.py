"""How connections of a port find out about lost packets and send them again.

Sources: register ROCE_ACCL (its fields stand in NVIDIA's "Adaptive Retransmission: Parameters
Control"); IBTA 9.7.5.1 for what is done without either.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossRecovery:
    """The port's settings, since power-on."""

    adaptive_retransmission: bool = True
    """Requesters ask what has arrived when a response is late, long before the ACK timeout."""
    selective_repeat: bool = False
    """Responders keep the data that come after a gap, and requesters send only what was lost again;
    connections whose first packet comes later."""
