"""Builds the package; with MLX5EMU_COMPILED=1, with what a message passes compiled by mypyc.

Everything else about the package stands in pyproject.toml. The compiled modules stand beside their
sources in the wheel, and Python prefers them. CONTRIBUTING.md says what mypyc wants of the code.
"""

from __future__ import annotations

import os
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGES = (
    "emu/device/adapter",
    "emu/device/cmdif",
    "emu/device/engine",
    "emu/device/function",
    "emu/device/objects",
    "emu/device/pci",
    "emu/device/port",
    "emu/device/rounds",
    "emu/device/state",
)
"""What is compiled, with all that is below it."""
MODULES = (
    "emu/server/vfio/mappings.py",
    "emu/server/vfio/memory.py",
    "emu/server/vfio/requests.py",
    "emu/server/vfio/session.py",
    "emu/server/vfio/waits/alarm.py",
    "emu/server/vfio/waits/spinning.py",
    "emu/server/vfio/waits/waiting.py",
    "layouts/integer.py",
)
"""What is compiled besides: a client's messages, guest memory, numbers in structures."""
LEFT_OUT = ("emu/device/objects/queues/receive_request.py",)
"""What is not: objects of a compiled class cannot be referred to weakly."""
GROUP = "emu_compiled"
"""All is one library, ``<GROUP>__mypyc``, so that modules call each other's C functions."""


class BuildOnAllProcessors(build_ext):
    """Compiles C files beside each other, and only those that have changed since the last build."""

    def build_extensions(self) -> None:
        """Put our way into the place of the compiler's, which takes one file after the other."""
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
        """As ``distutils.ccompiler.CCompiler.compile``."""
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

        with ThreadPoolExecutor(os.cpu_count()) as workers:
            list(workers.map(make, objects))
        return list(objects)


SHIPPED = (
    "share/guide/*.md",
    "share/man/man1/*.1",
    "examples/programs/*.py",
    "examples/programs/*.c",
    *(
        f"examples/{folder}/*.{suffix}"
        for folder in ("campaigns", "faults", "findings", "lab", "links", "subnet", "switch")
        for suffix in ("toml", "net", "md")
    ),
)
"""What a wheel has in emu/data besides code, under the same paths (emu/host/shipped.py)."""


class BuildWithData(build_py):
    """Builds the Python modules, and copies the guide and the examples beside them."""

    def run(self) -> None:
        """Copy the files as well, unless the installation runs the checkout itself."""
        super().run()
        if self.editable_mode:
            return
        for pattern in SHIPPED:
            for path in Path().glob(pattern):
                target = Path(self.build_lib, "emu", "data", path)
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target))


def compiled_modules() -> list[Any]:
    """Return the extension modules, and write their C files into ``build``."""
    from mypyc.build import mypycify

    paths = [path for package in PACKAGES for path in Path(package).rglob("*.py")]
    return list(
        mypycify(
            ["--config-file=pyproject.toml", *MODULES, *sorted(set(map(str, paths)) - {*LEFT_OUT})],
            opt_level="3",
            multi_file=True,
            group_name=GROUP,
        )
    )


def main() -> None:
    """Build what is asked for."""
    if os.environ.get("MLX5EMU_COMPILED", "0") in ("", "0"):
        setup(cmdclass={"build_py": BuildWithData})
        return
    if {"editable_wheel", "develop"} & set(sys.argv):
        sys.exit("an editable installation runs the sources: it cannot be compiled")
    # The compiler reads the types of what is imported, too.
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    needed = ["mypy[mypyc]>=2.4", *project["dependencies"]]
    if {"bdist_wheel", "build_ext"} & set(sys.argv):
        commands = {"build_ext": BuildOnAllProcessors, "build_py": BuildWithData}
        setup(ext_modules=compiled_modules(), cmdclass=commands)
    else:
        setup(setup_requires=needed)


if __name__ == "__main__":
    main()
