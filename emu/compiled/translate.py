"""Runs mypyc and the C compiler: for the cache in a process of its own, and for a wheel."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from emu.compiled.loading import use_library
from emu.compiled.sources import BUILT, Sources

_COMPILER_MEMORY = 500_000_000  # bytes of one process
_OPTIONS = (
    "--config-file=",  # a user's own settings of mypy are not ours
    "--cache-dir=/dev/null",
    "--explicit-package-bases",
    "--ignore-missing-imports",
    "--check-untyped-defs",
    "--follow-imports=silent",  # errors in other packages are not ours
)


class BuildOnAllProcessors(build_ext):
    """Compiles C files in parallel, and only those that have changed since the last build."""

    def build_extensions(self) -> None:
        """Replace the compiler's method, which compiles one file after the other."""
        self.compiler.compile = self._compile
        super().build_extensions()

    def _compile(
        self,
        sources: list[str],
        output_dir: str | None = None,
        macros: list[tuple[str, str]] | None = None,
        include_dirs: list[str] | None = None,
        debug: bool = False,
        extra_preargs: list[str] | None = None,
        extra_postargs: list[str] | None = None,
        depends: list[str] | None = None,
    ) -> list[str]:
        """Return the object files, as ``distutils.ccompiler.CCompiler.compile`` does."""
        compiler: Any = self.compiler
        _, objects, extra_postargs, pp_opts, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        options = compiler._get_cc_args(pp_opts, debug, extra_preargs)
        headers = max((path.stat().st_mtime for path in Path("build").glob("*.h")), default=0.0)

        def make(made: str) -> None:
            source, extension = build[made]
            target, changed = Path(made), max(headers, Path(source).stat().st_mtime)
            if not target.exists() or target.stat().st_mtime <= changed:
                # A compiler that is interrupted leaves nothing that looks complete.
                part = f"{made}.part.o"
                compiler._compile(part, source, extension, options, extra_postargs, pp_opts)
                Path(part).rename(target)

        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        most = max(1, min(len(os.sched_getaffinity(0)), memory // _COMPILER_MEMORY))
        with ThreadPoolExecutor(most) as workers:
            list(workers.map(make, objects))
        return list(objects)


def extensions(paths: Iterable[str], group: str) -> list[Any]:
    """Return the library of these modules and their shims, and write their C files into ``build``.

    ``paths`` are relative to the current folder. SystemExit if mypy finds an error in the modules.
    """
    from mypyc.build import mypycify

    return list(
        mypycify(
            [*_OPTIONS, *paths],
            opt_level="3",
            debug_level="0",
            multi_file=True,
            group_name=group,
        )
    )


def main() -> None:
    """Compile the library of the sources in the current folder into ``built``, and try it.

    The program's argument is their JSON. Every module of the library is imported, which raises what
    an import raises.
    """
    sources = Sources(**{**json.loads(sys.argv[1]), "root": Path.cwd()})
    paths = sources.paths()
    found = extensions(paths, sources.group)
    library = [extension for extension in found if extension.name == sources.library]
    command = BuildOnAllProcessors(Distribution({"ext_modules": library}))
    command.build_lib = BUILT
    command.ensure_finalized()
    command.run()
    sys.path.insert(0, str(sources.root))
    use_library(Path(BUILT, f"{sources.library}{EXTENSION_SUFFIXES[0]}"), sources)
    for path in paths:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        importlib.import_module(name)


if __name__ == "__main__":
    main()
