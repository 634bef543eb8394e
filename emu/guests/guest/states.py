"""What a guest's state can be; who only asks for it need not load what boots one."""

from __future__ import annotations

UP, BOOTING, PANICKED, OFF = STATES = ("up", "booting", "panicked", "off")
