"""Traffic counters of a vPort: since power-on, and since its driver last cleared them.

A vPort's counters only grow. When the driver clears them (PRM "QUERY_VPORT_COUNTER"), only the base
for reads changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

MAX_VIOLATIONS: Final = 0xFFFF
"""Value at which counters of wrong keys stop (IBTA 14.2.5.6)."""


@dataclass(slots=True)
class Traffic:
    """Packets or frames of one kind, and their bytes, as the link layer counts them.

    InfiniBand counts from the first header to the invariant CRC, Ethernet without the frame check
    sequence.
    """

    packets: int = 0
    octets: int = 0


class Counting(Protocol):
    """A vPort with counters that its driver can clear."""

    cleared: dict[str, Traffic]
    """The counters' values when the driver last cleared them."""

    def counters(self) -> dict[str, Traffic]:
        """Return a copy of the counters since power-on, by names in query_vport_counter_out."""


def since_cleared(vport: Counting) -> dict[str, Traffic]:
    """Return the traffic since the driver last cleared the counters, for its query.

    All counters are included, by names in query_vport_counter_out; since power-on if never cleared.
    """
    return {
        name: Traffic(now.packets - before.packets, now.octets - before.octets)
        for name, now in vport.counters().items()
        for before in (vport.cleared.get(name, Traffic()),)
    }


def clear(vport: Counting) -> None:
    """Clear the counters for the driver's queries only: the counts since power-on stay."""
    vport.cleared = vport.counters()
