"""Handlers of the firmware commands: one decorated function for each PRM command.

Importing the package imports its modules, and each fills the registry. ``TABLE`` is the finished,
read-only result that a service or a test hands to the device.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from emu.device.cmdif.registry import COMMANDS, Command

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

TABLE: Mapping[int, Command] = MappingProxyType(COMMANDS)
