"""The modules of a guest's kernel, as far as files on the host list them before the boot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emu.guests.errors import LabError
from emu.guests.image import image
from emu.guests.kernel import module_tree
from emu.guests.kernel.modules import module_name
from emu.guests.options import GuestOptions
from emu.near import near


@dataclass(frozen=True)
class ListedModules:
    """Names of a kernel's modules, with underscores."""

    loadable: frozenset[str]
    built_in: frozenset[str]

    def check(self, name: str) -> None:
        """Raise LabError, with near names, unless ``name`` is a loadable module."""
        if name in self.built_in:
            raise LabError(f"{name} is built into the kernel")
        if name not in self.loadable:
            raise LabError(f"the kernel has no module {name}{near(name, self.loadable)}")


def listed_modules(options: GuestOptions) -> ListedModules | None:
    """Return the modules of the guest's kernel; None if no file on the host lists them.

    None is for an image that is not built yet, additional packages, and a kernel without a module
    tree.
    """
    tree = _image_tree(options) if options.kernel is None else _own_tree(options.modules)
    if tree is None:
        return None
    table = "modules.order" if module_tree.is_build_tree(tree) else "modules.dep"
    lines = (tree / table).read_text(errors="replace").splitlines()
    # modules.order of Linux 6.4 and later names the objects.
    names = {module_name(line.partition(":")[0].removesuffix(".o")) for line in lines}
    built_in = tree / "modules.builtin"
    inside = built_in.read_text(errors="replace").split() if built_in.is_file() else ()
    return ListedModules(frozenset(names), frozenset(map(module_name, inside)))


def _image_tree(options: GuestOptions) -> Path | None:
    """Return the directory of the suite's image; None without a list of its kernel's modules."""
    found = None if options.packages else image.find(options.suite)
    return found.path if found is not None and (found.path / "modules.dep").is_file() else None


def _own_tree(modules: Path | None) -> Path | None:
    """Return the build tree, or the only directory with modules.dep; None without either."""
    if modules is None:
        return None
    if module_tree.is_build_tree(modules):
        return modules
    trees = [
        path.parent
        for below in ("", "*/", "lib/modules/*/", "usr/lib/modules/*/")
        for path in modules.glob(f"{below}modules.dep")
    ]
    return trees[0] if len(trees) == 1 else None
