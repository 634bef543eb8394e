"""Modules that mypyc compiles, and the hash by which the cache knows their compiled form."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

BUILT = "built"
"""Folder of a new library, below the root."""
_KEY_DIGITS = 12
_SUFFIXES = (".py", ".pyi")


@dataclass(frozen=True)
class Sources:
    """Modules that become one library; all paths are relative to ``root``, with slashes.

    ``packages`` are compiled with all packages below them, ``modules`` as well, ``left_out`` not.
    ``read`` has the folders and files whose types the compiler reads, the compiled ones included:
    a change there needs a new build.
    """

    root: Path
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    left_out: tuple[str, ...]
    read: tuple[str, ...]
    group: str

    @property
    def library(self) -> str:
        """Name of the extension module that contains all compiled modules."""
        return f"{self.group}__mypyc"

    def is_compiled(self, module: str) -> bool:
        """Return whether a module, by its dotted name, is one of those that are compiled."""
        path = module.replace(".", "/")
        if f"{path}.py" in self.left_out:
            return False
        is_below = any(f"{path}/".startswith(f"{package}/") for package in self.packages)
        return is_below or f"{path}.py" in self.modules

    def source(self, module: str) -> Path:
        """Return the source file of a module or a package; it may be absent."""
        path = self.root.joinpath(*module.split("."))
        package = path / "__init__.py"
        return package if package.exists() else path.with_suffix(".py")

    def paths(self) -> list[str]:
        """Return the source files that are compiled, sorted."""
        found = {
            path.relative_to(self.root).as_posix()
            for package in self.packages
            for path in (self.root / package).rglob("*.py")
        }
        return sorted({*found, *self.modules} - {*self.left_out})

    def key(self) -> str:
        """Return the hash of all that is read and of this Python, as 12 hexadecimal digits."""
        import hashlib  # slow to import, and not needed by every command

        python = (*sys.version_info, EXTENSION_SUFFIXES[0], self.group)
        digest = hashlib.sha256(repr(python).encode())
        for name in self.files():
            content = (self.root / name).read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()[:_KEY_DIGITS]

    def changed(self) -> float:
        """Return the time of the latest change of a file that is read, in seconds since 1970."""
        return max((self.root / name).stat().st_mtime for name in self.files())

    def files(self) -> Iterator[str]:
        """Yield the source files that are read, in a fixed order."""
        for name in self.read:
            if (self.root / name).is_file():
                yield name
            for place, folders, files in os.walk(self.root / name):
                folders.sort()
                below = os.path.relpath(place, self.root)
                yield from (f"{below}/{file}" for file in sorted(files) if file.endswith(_SUFFIXES))


DEVICE = Sources(
    root=Path(__file__).parents[2],
    packages=(
        "emu/device/adapter",
        "emu/device/cmdif",
        "emu/device/engine",
        "emu/device/function",
        "emu/device/objects",
        "emu/device/pci",
        "emu/device/port",
        "emu/device/rounds",
        "emu/device/state",
    ),
    modules=(
        "emu/server/vfio/mappings.py",
        "emu/server/vfio/memory.py",
        "emu/server/vfio/requests.py",
        "emu/server/vfio/session.py",
        "emu/server/vfio/waits/alarm.py",
        "emu/server/vfio/waits/spinning.py",
        "emu/server/vfio/waits/waiting.py",
        "layouts/integer.py",
    ),
    # A weak reference cannot refer to an object of a compiled class, and no class outside can
    # derive from one.
    left_out=(
        "emu/device/objects/queues/receive_request.py",
        "emu/device/port/eth/no_wire.py",
    ),
    read=(
        "layouts",
        "emu/device",
        "emu/host",
        "emu/server/vfio",
        "emu/compiled/sources.py",
        "emu/compiled/translate.py",
        "emu/__init__.py",
        "emu/near.py",
        "emu/server/__init__.py",
    ),
    group="emu_compiled",
)
"""The device in a message's path, a client's messages, guest memory, numbers in structures."""
