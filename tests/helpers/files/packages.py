"""Builds Debian packages with dpkg-deb."""

from __future__ import annotations

import shutil
import subprocess

import pytest

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb")


def build_package(directory, name, files, debian="amd64"):
    """Build ``directory``/NAME.deb of the files in a mapping and return its path."""
    root = directory / name
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "DEBIAN").mkdir(parents=True, exist_ok=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: {debian}\n"
        "Maintainer: x <x@x>\nDescription: x\n"
    )
    deb = directory / f"{name}.deb"
    command = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(deb)]
    subprocess.run(command, check=True, capture_output=True)
    return deb
