"""Puts the compiled form of modules in their place at import, if the cache has it.

One library of the cache contains all modules. Its name has its own SHA-256, so a damaged library is
recognised before the process executes anything of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from emu.compiled.sources import DEVICE, Sources
from emu.host.cache_root import cache_root, untrusted

logger = logging.getLogger(__name__)

FOLDER = "compiled"
"""Folder of the cache; an entry is a folder with the sources' hash as its name."""
SETTING = "MLX5EMU_COMPILED"
"""Environment variable: 0 for pure Python, 1 for compiled code in every program that imports emu.

Without it only the command line uses compiled code.
"""
NEVER = "0"


def install(sources: Sources = DEVICE) -> None:
    """Let later imports of the modules of ``sources`` use the cache's compiled form.

    The first such import reads the cache. Without effect if one of the modules is imported already,
    because pure and compiled modules do not mix.
    """
    is_here = any(isinstance(one, _Finder) and one.sources == sources for one in sys.meta_path)
    if not is_here and not any(map(sources.is_compiled, sys.modules)):
        sys.meta_path.insert(0, _Finder(sources))


def use_library(path: Path, sources: Sources) -> None:
    """Let later imports use the library ``path``, for a check of it. Raises ImportError."""
    sys.meta_path.insert(0, _Finder(sources, _opened(path, sources)))


def entry(key: str) -> Path | None:
    """Return the cache's library for the hash ``key``; None without an intact one.

    None as well if another user could have written it.
    """
    import hashlib  # slow to import

    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home directory
        folder = cache_root() / FOLDER / key
        for path in folder.glob("*.so"):
            places = (cache_root(), folder.parent, folder, path)
            if any(map(untrusted, places)):
                return None
            if hashlib.sha256(path.read_bytes()).hexdigest() == path.stem:
                with contextlib.suppress(OSError):
                    os.utime(folder)  # the least recently used entries are removed first
                return path
    return None


class _Finder:
    """Finds the compiled form of modules (``importlib.abc.MetaPathFinder``)."""

    def __init__(self, sources: Sources, library: ModuleType | None = None) -> None:
        self.sources = sources
        self._library = library
        self._is_open = library is not None
        self._tops = {name.partition("/")[0] for name in (*sources.packages, *sources.modules)}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module whose compiled form is used; None for all others."""
        if name.partition(".")[0] not in self._tops or not self.sources.is_compiled(name):
            return None
        if self._library is None and os.environ.get(SETTING) == NEVER:
            # A wheel may have compiled modules beside their sources.
            return importlib.util.spec_from_file_location(name, self.sources.source(name))
        if not self._is_open:
            self._library, self._is_open = _library_of(self.sources), True
        if self._library is None:
            return None
        source = self.sources.source(name)
        loader: Any = _Loader(self._library)  # importlib.abc is slow to import
        is_package = source.name == "__init__.py"
        spec = ModuleSpec(name, loader, origin=self._library.__file__, is_package=is_package)
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(source.parent))
        return spec


class _Loader:
    """Creates modules of a library as mypyc's shims do (mypyc/lib-rt/module_shim.tmpl)."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module with its body executed, for mypyc's modules do both at once.

        Raises what the body raises, and ImportError for a module that the library lacks.
        """
        name = f"init_{spec.name.replace('.', '___')}"
        capsule = getattr(self._library, name, None)
        if capsule is None:
            raise ImportError(f"{self._library.__name__} lacks {spec.name}", name=spec.name)
        return _initialized(capsule, f"{self._library.__name__}.{name}")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the body has been executed."""


def _initialized(capsule: object, name: str) -> ModuleType:
    """Call the function of a capsule with this name, and return the module that the call makes."""
    import ctypes  # slow to import

    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    module = ctypes.PYFUNCTYPE(ctypes.py_object)(get_pointer(capsule, name.encode()))()
    assert isinstance(module, ModuleType)
    return module


def _library_of(sources: Sources) -> ModuleType | None:
    """Open and return the cache's library of ``sources``; None without one that can be used."""
    if (sources.root / f"{sources.library}{EXTENSION_SUFFIXES[0]}").exists():
        return None  # a compiled wheel: Python finds the modules itself
    if not _is_used():
        return None  # the hash of the sources takes 20 ms
    try:
        path = entry(sources.key())
        return None if path is None else _opened(path, sources)
    except (ImportError, OSError) as error:
        logger.warning("pure Python, because compiled code cannot be loaded: %s", error)
        return None


def _is_used() -> bool:
    """Return whether the cache has any compiled code."""
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home directory
        return any((cache_root() / FOLDER).glob("*/*.so"))
    return False


def _opened(path: Path, sources: Sources) -> ModuleType:
    """Return the loaded library ``path``. Raises ImportError."""
    loader = ExtensionFileLoader(sources.library, str(path))
    spec = ModuleSpec(sources.library, loader, origin=str(path))
    library = importlib.util.module_from_spec(spec)
    loader.exec_module(library)
    # mypyc derives each package's __path__ from here: other modules lie beside the sources.
    library.__file__ = str(sources.root / f"{sources.library}{EXTENSION_SUFFIXES[0]}")
    sys.modules[sources.library] = library
    return library
