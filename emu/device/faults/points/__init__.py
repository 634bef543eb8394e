"""The fault points, by family: what is shown at each, and what rules can do there.

Importing the package imports its modules, and each fills the registry of
:mod:`emu.device.faults.registry`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
