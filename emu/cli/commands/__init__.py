"""The commands of ``mlx5emu``, one module each, in packages that are the sections of its help."""

from __future__ import annotations

import functools
import pkgutil

_SECTIONS = ("guests", "functions", "trials", "setup")
"""Order of the packages in the help; packages that are not listed follow by name."""


@functools.cache
def modules() -> dict[str, str]:
    """Return the full name of each command's module by the command's name; import none of them."""
    found = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        name = module.name.rpartition(".")[2]
        if not module.ispkg and not name.startswith("_"):
            found[name.replace("_", "-")] = module.name
    return found


def section_order(package: str) -> tuple[int, str]:
    """Return the sort key of a package of commands."""
    name = package.rpartition(".")[2]
    return (_SECTIONS.index(name) if name in _SECTIONS else len(_SECTIONS), name)
