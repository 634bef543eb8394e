"""The subnet's manager and the switch that it sits in, as subnet management packets show them."""

from emu.server.net.ib.sm.agent import TRUSTED_SM_KEY
from emu.server.net.ib.sm.switch import SmpSwitch

__all__ = ["TRUSTED_SM_KEY", "SmpSwitch"]
