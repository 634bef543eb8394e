"""mlx5emu on an arm64 host, as far as it goes without one: uname(2) says aarch64."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRELUDE = """
import platform
platform.machine = lambda: "aarch64"
"""
MAIN = f"""{PRELUDE}
from emu.cli.main import main
main(prog_name="mlx5emu")
"""
FACTS = f"""{PRELUDE}
from pathlib import Path
from emu.guests import GuestOptions
from emu.guests.architecture import ARCHITECTURES, is_native
from emu.guests.image.recipe import recipe
from emu.guests.machine.command_line import Machine, arguments
from emu.guests.machine.qemu import Qemu, _LOADERS, _directory
options = GuestOptions()
arch = ARCHITECTURES[options.arch]
print(options.arch, [one.name for one in ARCHITECTURES.values() if is_native(one)])
program = Qemu(("qemu-system-aarch64",), (11, 1, 3), "x")
words = arguments(Machine(qemu=program, accelerator="kvm", kernel=Path("k"), initrd=Path("i")))
print(*words)
print(recipe("trixie").name.startswith("trixie-"), "chroot" in recipe("trixie").finalize)
print(recipe("trixie", (), ARCHITECTURES["amd64"]).title)
print(_directory(arch).name, _LOADERS[arch.name][0])
"""


@pytest.fixture
def environ(tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    return os.environ | cache | {"MLX5EMU_MIRROR": "http://m/debian"}


def python(text, *words, environ):
    command = [sys.executable, "-c", text, *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_guests_are_arm64_and_boot_by_kvm(environ):
    done = python(FACTS, environ=environ)
    assert done.returncode == 0, done.stderr
    native, words, image, foreign, qemu = done.stdout.splitlines()
    assert native == "arm64 ['arm64', 'arm64-16k']"
    assert words.startswith("qemu-system-aarch64 ")
    assert "virt,gic-version=3,its=on" in words
    assert "-accel kvm -cpu host" in words
    assert "console=ttyAMA0" in words
    assert "vmcoreinfo" not in words
    assert image == "True True"  # configured on the host, not only unpacked
    assert foreign == "trixie amd64"
    assert qemu == "trixie-backports-1-qemu-system-arm lib/ld-linux-aarch64.so.1"


def test_doctor_accepts_the_host(environ):
    """scripts/demo ended there: its second step is doctor."""
    done = python(MAIN, "doctor", environ=environ)
    (line,) = [line for line in done.stdout.splitlines() if "Linux on aarch64" in line]
    assert "ok" in line


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("run --iommu -- true", "arm64 guests have no emulated IOMMU"),
        ("run --accel kvm --arch amd64 -- true", "KVM runs guests of arm64 only on this host"),
        ("run --device connectx6dx,vfs=2 -- true", "vfs: only amd64 guests can have virtual"),
        ("run --coverage mlx5_core -- true", "--coverage counts calls in amd64 guests, not in"),
        (
            "run --arch amd64 --coverage mlx5_core --coverage-blocks -- true",
            "--coverage-blocks: blocks are counted on amd64 hosts only",
        ),
        ("fuzz run --corpus corpus", "blocks are counted on amd64 hosts only"),
        ("run --pip rich --arch s390x -- true", "only for guests of arm64"),
        ("run --kernel debian:nosuch -- true", "no kernel debian:nosuch: debian:rt, debian:cloud"),
    ],
    ids=lambda word: word.partition(" -- ")[0],
)
def test_a_refusal_is_one_line(words, why, environ, tmp_path):
    done = python(MAIN, *words.split(), environ=environ)
    assert done.returncode == 2, done
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert why in line
    assert not (tmp_path / "cache/mlx5emu/images").exists()


def test_configurations_are_amd64s(environ, tmp_path):
    done = python(MAIN, "kernel", "config", str(tmp_path), environ=environ)
    assert done.returncode == 1
    assert "configurations are for amd64, and this host is arm64: make defconfig" in done.stderr


def test_a_kernel_is_built_for_the_host(environ, tmp_path):
    """``bzImage`` is no target of arm64."""
    tree = tmp_path / "linux"
    tree.mkdir()
    (tree / ".config").touch()
    (tree / "Makefile").write_text("Image modules:\n\t@echo made $@\n")
    text = f"{PRELUDE}\nfrom pathlib import Path\nfrom emu.guests.kernel import kbuild\n"
    text += "kbuild.check_tools = lambda: None\nkbuild.build(Path('linux'), None, 1)\n"
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"made Image", "made modules"} <= {*done.stdout.splitlines()}
