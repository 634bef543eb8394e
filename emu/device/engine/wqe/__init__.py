"""Work requests: one decorated function for each send opcode and service.

Importing the package imports every module in it, which fills the registry.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
