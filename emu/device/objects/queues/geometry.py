"""Where the WQEs of a receive queue lie in its buffer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RqGeometry:
    """Where the WQEs of a receive queue lie, whichever kind of context described it."""

    log_size: int
    """log2 of the number of WQEs."""
    log_stride: int
    """log2 of the bytes of one WQE."""
    log_page_size: int
    page_offset: int
    dbr_addr: int
