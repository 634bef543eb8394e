"""Detection and retransmission of lost packets by a port's connections.

Sources: register ROCE_ACCL (fields described in NVIDIA's "Adaptive Retransmission: Parameters
Control"); IBTA 9.7.5.1 for the behaviour without either.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossRecovery:
    """The port's settings, since power-on."""

    adaptive_retransmission: bool = True
    """Whether a requester probes for a late response well before the ACK timeout."""
    selective_repeat: bool = False
    """Whether responders keep data behind a gap, and requesters retransmit only lost packets; for
    connections whose first packet is sent after the change."""
