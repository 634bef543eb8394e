"""Times of the transport, from the specification: not what the device makes of them."""

from __future__ import annotations

ACK_TIMEOUT_UNIT_NS = 4096
"""IBTA 9.7.6.1.3: the local ACK timeout of code ``n`` is 4.096 us, shifted left by ``n``."""

RNR_NAK_NS = [
    round(1_000_000 * milliseconds)
    for milliseconds in (
        655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96,
        1.28, 1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92,
        122.88, 163.84, 245.76, 327.68, 491.52,
    )
]  # fmt: skip
"""IBTA 9.7.5.2.8, table 45: how long a requester waits after an RNR NAK, by its timer code."""
