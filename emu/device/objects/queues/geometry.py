"""Layout of the WQEs of a receive queue in its buffer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RqGeometry:
    """Layout of a receive queue's WQEs, independent of the context that described it."""

    log_size: int
    """log2 of the number of WQEs."""
    log_stride: int
    """log2 of the bytes of one WQE."""
    log_page_size: int
    page_offset: int
    dbr_addr: int
