"""The probes of a function: what observes or disturbs its events, each without effect if absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.state.points import FaultPoints
    from emu.device.state.tracer import DeviceTracer


class Probes:
    """The fault rules and the tracer of one function."""

    __slots__ = ("faults", "tracer")

    def __init__(self, tracer: DeviceTracer | None) -> None:
        self.faults: FaultPoints | None = None
        """The loaded fault rules; None while no rule is loaded."""
        self.tracer = tracer
