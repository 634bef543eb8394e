"""What a vPort has carried: since power-on, and since its driver last cleared the counters.

A vPort counts upwards for ever. That the driver clears its counters (PRM "QUERY_VPORT_COUNTER")
changes only what they are read against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

MAX_VIOLATIONS: Final = 0xFFFF
"""Where counters of wrong keys stay (IBTA 14.2.5.6)."""


@dataclass(slots=True)
class Traffic:
    """Packets or frames of one kind, and their bytes as far as the link layer counts them.

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
        """A copy of the counters since power-on, by the names in query_vport_counter_out."""


def since_cleared(vport: Counting) -> dict[str, Traffic]:
    """The traffic since the driver last cleared the vPort's counters: what the driver reads."""
    return {
        name: Traffic(now.packets - before.packets, now.octets - before.octets)
        for name, now in vport.counters().items()
        for before in (vport.cleared.get(name, Traffic()),)
    }


def clear(vport: Counting) -> None:
    """From now on the driver reads only the traffic that follows."""
    vport.cleared = vport.counters()
