"""A function's state about the port at the other end of its cable (engine.eth.rx_credits)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LinkPartner:
    """The number of packets that the function may send before it checks for a pause again."""

    address: bytes = b""
    """Destination of the last frame; empty before the first one."""
    credit: int = 0
    """Number of packets."""
    priority: int = 0
    """Priority that has the credits, where the port obeys PFC."""
    largest: int = 64
    """Maximum number of packets sent at once, in a super-frame or by one WQE."""
    since_ns: dict[int, int] = field(default_factory=dict)
    """Start of the current wait of each priority that waits."""
