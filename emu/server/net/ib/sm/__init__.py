"""The subnet's manager and its switch, as visible in management packets."""

from emu.server.net.ib.sm.agent import TRUSTED_SM_KEY
from emu.server.net.ib.sm.counters import SwitchCounters
from emu.server.net.ib.sm.switch import SmpSwitch

__all__ = ["TRUSTED_SM_KEY", "SmpSwitch", "SwitchCounters"]
