"""Counts of one function, for its driver and for the summary at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass

from emu.device.state.parts.unhandled import Unhandled


@dataclass(slots=True)
class Counts:
    """Counts since the function's reset, except ``unhandled``, which counts the whole run."""

    unhandled: Unhandled
    """Commands, registers and capability groups that have no implementation here."""
    teardowns: int = 0
    """Number of times that all objects have been dropped at once."""
