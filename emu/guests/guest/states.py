"""The states of a guest; importing them does not load the modules that boot one."""

from __future__ import annotations

UP, BOOTING, PANICKED, OFF = STATES = ("up", "booting", "panicked", "off")
