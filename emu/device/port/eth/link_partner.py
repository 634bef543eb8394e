"""What a function knows of the port at the other end of its cable (engine.eth.room)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LinkPartner:
    """How much the function may send until it asks again whether it should wait."""

    address: bytes = b""
    """Where its last frame went; empty before the first one."""
    credit: int = 0
    """Packets."""
    largest: int = 64
    """The most packets that came at once: as one super-frame, or by one request."""
    since_ns: int = 0
    """Since when it has been waiting; 0 while it does not."""
