"""Guests of other architectures: their images, QEMU's machine, and options that they have not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emu.guests import GuestOptions, architecture
from emu.guests.architecture import ARCHITECTURES, is_native
from emu.guests.errors import LabError
from emu.guests.guest.saved_boot import can_be_saved
from emu.guests.image.build import _arguments
from emu.guests.image.recipe import recipe
from emu.guests.machine import qemu
from emu.guests.machine.command_line import Machine, arguments, kernel_arguments

FOREIGN = [one for one in ARCHITECTURES.values() if one.name != "amd64"]
ALL = pytest.mark.parametrize("arch", ARCHITECTURES.values(), ids=lambda one: one.name)
OTHERS = pytest.mark.parametrize("arch", FOREIGN, ids=lambda one: one.name)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """The host has an amd64 processor, wherever the tests run."""
    amd64 = ARCHITECTURES["amd64"]
    for module in (architecture, qemu):
        monkeypatch.setattr(module, "NATIVE", amd64)
    monkeypatch.setattr("emu.guests.image.recipe.NATIVE", amd64)


def machine(arch, **parts):
    program = qemu.Qemu((f"qemu-system-{arch.emulator}",), (11, 1, 3), "x")
    paths = {"kernel": Path("/k"), "initrd": Path("/i"), "disks": (Path("/root"),)}
    paths |= {"functions": (Path("/f0"), Path("/f1")), "port": Path("/p"), "network": True}
    return Machine(qemu=program, accelerator="tcg", arch=arch, **paths | parts)


def options(arch, **others):
    devices = ("connectx6",) * arch.min_functions
    return GuestOptions(**{"arch": arch.name, "devices": devices} | others)


@ALL
def test_a_machine_has_its_console_and_its_bus(arch):
    words = arguments(machine(arch))
    assert words[0] == f"qemu-system-{arch.emulator}"
    assert f"{arch.machine},memory-backend=memory" in words
    assert kernel_arguments(arch)[0] == f"console={arch.console}"
    text = " ".join(words)
    assert text.count("pcie-root-port") == (2 if arch.has_root_ports else 0)
    assert text.count('"bus"') == (2 if arch.has_root_ports else 0)
    assert {*re.findall(r"virtio-(?:blk|serial|net)-(\w+)", text)} == {arch.virtio}
    assert ("vmcoreinfo" in text) == ("vmgenid" in text) == (arch.name == "amd64")
    assert ("romfile" in text) == (arch.virtio == "pci")


@OTHERS
def test_an_image_is_unpacked_and_runs_nothing(arch):
    wanted = recipe("sid", ["bc"], arch)
    words = _arguments(wanted, 7)
    assert {"--variant=extract", f"--architectures={arch.debian}"} <= {*words}
    (include,) = (word for word in words if word.startswith("--include="))
    assert {arch.kernel, "bc", "perftest"} <= {*include.partition("=")[2].split(",")}
    hooks = [word for word in words if "-hook=" in word]
    assert len(hooks) == 2
    assert all(hook.startswith("--extract-hook=") for hook in hooks)
    assert "chroot" not in wanted.finalize
    assert not re.search("@[A-Z]+@", wanted.finalize + hooks[1])
    assert not wanted.is_extension
    assert wanted.title == f"sid {arch.name} with bc"


def test_each_architecture_has_its_own_image():
    names = {recipe("sid", (), arch).name for arch in ARCHITECTURES.values()}
    assert len(names) == len(ARCHITECTURES)
    assert recipe("sid", (), ARCHITECTURES["s390x"]).name.startswith("s390x-sid-")
    assert recipe("sid").name.startswith("sid-")


@OTHERS
@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"iommu": True}, "guests have no emulated IOMMU"),
        ({"dump": Path("/d")}, "guests have no dump of their memory"),
        ({"gdb": True}, "guests have no debugger"),
        ({"accelerator": "kvm"}, "KVM runs guests of amd64 only on this host"),
    ],
)
def test_what_they_have_not_is_told(arch, others, why):
    with pytest.raises(LabError, match=f"^arch: .*{why}$"):
        options(arch, **others)


def test_a_kernel_of_ones_own_is_for_amd64(tmp_path):
    (tmp_path / "bzImage").touch()
    with pytest.raises(LabError, match="riscv64 guests have no kernel other than the suite's"):
        options(ARCHITECTURES["riscv64"], kernel=tmp_path / "bzImage")


def test_a_machine_that_needs_two_functions_says_so():
    with pytest.raises(LabError, match="QEMU starts ppc64el guests with 2 functions or more"):
        GuestOptions(arch="ppc64el")
    assert GuestOptions(arch="ppc64el", devices=()).devices == ()
    with pytest.raises(LabError, match=r"'arm46' is not one of amd64, .*near it: arm64"):
        GuestOptions(arch="arm46")


@ALL
def test_only_boots_of_amd64_are_saved(arch):
    assert can_be_saved(options(arch), machine(arch)) == (arch.name == "amd64")


@pytest.mark.parametrize("host", ["amd64", "arm64"])
def test_an_arm64_host_runs_its_own_programs(monkeypatch, host):
    monkeypatch.setattr(architecture, "NATIVE", ARCHITECTURES[host])
    native = {one.name for one in ARCHITECTURES.values() if is_native(one)}
    assert native == {"amd64": {"amd64"}, "arm64": {"arm64", "arm64-16k"}}[host]


@ALL
def test_qemu_of_each_architecture(arch, tmp_path, monkeypatch):
    """MLX5EMU_QEMU is that of the host's guests; others are found by their program's name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MLX5EMU_QEMU", raising=False)
    program = tmp_path / f"qemu-system-{arch.emulator}"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "QEMU emulator version 11.1.3"\n'
        '[ "$1" = -device ] && echo \'name "vfio-user-pci"\'\nexit 0\n'
    )
    program.chmod(0o755)
    assert qemu.find(arch).command == (str(program),)
    others = {one.name for one in ARCHITECTURES.values() if one.emulator != arch.emulator}
    assert all(qemu.find(ARCHITECTURES[name]) is None for name in others)
    monkeypatch.setenv("MLX5EMU_QEMU", str(replace_program(program)))
    found = qemu.find(arch).command
    assert (found == (str(program),)) == (arch.name != "amd64")


def replace_program(program):
    other = program.with_name("mine")
    other.write_bytes(program.read_bytes())
    other.chmod(0o755)
    return other
