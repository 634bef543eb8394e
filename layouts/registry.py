"""Registry of every structure that the package declares, found in its modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType

import layouts
from layouts.prm import Prm

_NO_STRUCTURES = "layouts.btf."
"""Package of the comparison with a driver's binaries; its reader of ELF files need not be
loaded.
"""


def modules() -> list[ModuleType]:
    """Import and return the package's modules without those of ``layouts.btf``, sorted by name."""
    packages = pkgutil.walk_packages(layouts.__path__, "layouts.")
    names = sorted(module.name for module in packages if not module.name.startswith(_NO_STRUCTURES))
    return [importlib.import_module(name) for name in names]


def structures() -> dict[str, type[Prm]]:
    """Return all module-level structures of the package by name, in alphabetical order.

    Structures declared inside another one belong to it and are not listed. Raises ValueError when
    two declarations have one name.
    """
    return collect(vars(module) for module in modules())


def collect(namespaces: Iterable[dict[str, object]]) -> dict[str, type[Prm]]:
    """Return the structures among the values of ``namespaces`` by name, sorted.

    Raises ValueError for two structures of one name; the same one may occur twice.
    """
    structures: dict[str, type[Prm]] = {}
    for namespace in namespaces:
        for value in namespace.values():
            if not (isinstance(value, type) and issubclass(value, Prm)) or value.abstract:
                continue
            if structures.setdefault(value.__name__, value) is not value:
                raise ValueError(f"{value.__name__} is declared twice")
    return dict(sorted(structures.items()))
