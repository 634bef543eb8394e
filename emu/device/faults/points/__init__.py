"""The fault points, by family: the events of each, and the actions of rules.

Importing the package imports its modules, and each fills the registry of
:mod:`emu.device.faults.registry`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
