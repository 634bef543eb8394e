"""Builds the package; with MLX5EMU_COMPILED=1, with the code in a message's path compiled by mypyc.

Everything else about the package stands in pyproject.toml. The compiled modules stand beside their
sources in the wheel, and Python prefers them. CONTRIBUTING.md says what mypyc wants of the code.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))

from emu.compiled.sources import DEVICE
from emu.compiled.translate import BuildOnAllProcessors, extensions

SHIPPED = (
    "share/guide/*.md",
    "share/man/man1/*.1",
    *(
        f"examples/{folder}/*.{suffix}"
        for folder in (
            "driver-tests",
            "ethernet",
            "fabric",
            "links",
            "module",
            "paging",
            "programs",
            "recipes",
            "sriov",
            "storage",
            "subnet",
            "tools",
            "ucx",
        )
        for suffix in ("c", "md", "py", "sh", "toml")
    ),
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "action.yml",
    "scripts/benchmarks/*.md",
    "examples/README.md",
    "examples/module/Makefile",
    "examples/rdma-core/README.md",
    "examples/real-cards/README.md",
    "examples/software/README.md",
    "examples/tools/libvirt.xml",
    "firmware_cmds/README.md",
    "emu/device/adapter/README.md",
    "emu/device/engine/eth/ste/README.md",
    "emu/guests/options/README.md",
    "emu/server/README.md",
    *(
        f"examples/{folder}/*.{suffix}"
        for folder in (
            "campaigns",
            "chaos",
            "faults",
            "findings",
            "lab",
            "links",
            "sriov",
            "subnet",
            "switch",
        )
        for suffix in ("toml", "net", "md", "py", "sh")
    ),
)
"""What a wheel has in emu/data besides code, under the same paths (emu/host/shipped.py)."""


MANUAL = [("share/man/man1", ["share/man/man1/mlx5emu.1"])]
"""Files of an installation below the environment's folder, where man(1) finds them by PATH."""


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


def main() -> None:
    """Build what is asked for."""
    if os.environ.get("MLX5EMU_COMPILED", "0") in ("", "0"):
        setup(cmdclass={"build_py": BuildWithData}, data_files=MANUAL)
        return
    if {"editable_wheel", "develop"} & set(sys.argv):
        sys.exit("an editable installation runs the sources: it cannot be compiled")
    if {"bdist_wheel", "build_ext"} & set(sys.argv):
        commands = {"build_ext": BuildOnAllProcessors, "build_py": BuildWithData}
        modules = extensions(DEVICE.paths(), DEVICE.group)
        setup(ext_modules=modules, cmdclass=commands, data_files=MANUAL)
    else:
        # The compiler reads the types of what is imported, too.
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        compiler = project["optional-dependencies"]["compiled"]
        setup(setup_requires=[*compiler, *project["dependencies"]])


if __name__ == "__main__":
    main()
