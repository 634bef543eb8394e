"""Rights to memory that a key grants: lr, lw, rr, rw and a of mkc, from bit 0 on (IBTA 10.6.3)."""

from __future__ import annotations

from typing import Final

LOCAL_READ, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC = (1 << bit for bit in range(5))
ALL_RIGHTS: Final = 0x1F

WRITES: Final = LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC
"""Rights that need writable memory."""
