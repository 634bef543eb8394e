"""The points that the injector itself shows: a rule is loaded, a function is powered on."""

from __future__ import annotations

from emu.device.state.points import FaultPoint

LOAD_POINT: FaultPoint[[], None] = FaultPoint("load")
POWER_ON_POINT: FaultPoint[[str], None] = FaultPoint("power_on")
