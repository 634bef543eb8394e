"""What a field of a packet is to flow groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from emu.device.port.eth.headers import Headers

Read = Callable[[Headers], int | None]
Part = Callable[[Headers], Hashable]


class MatchField(NamedTuple):
    """How a field is read, and which bytes of a packet determine it."""

    read: Read
    part: Part | None = None
    """None: it is determined by what is always part of a decision's key (``fields.base``)."""
