"""Guests of other architectures: their images, QEMU's machine, and options that they have not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.files.kernel_files import module
from helpers.files.packages import build_package, needs_dpkg

from emu.guests import Guest, GuestOptions, architecture
from emu.guests.architecture import ARCHITECTURES, is_native
from emu.guests.errors import LabError
from emu.guests.guest.saved_boot import can_be_saved
from emu.guests.image.build import _arguments
from emu.guests.image.recipe import recipe
from emu.guests.kernel import archive, choice, custom
from emu.guests.machine import qemu
from emu.guests.machine.command_line import Machine, arguments, kernel_arguments
from emu.guests.requested import check_requested

FOREIGN = [one for one in ARCHITECTURES.values() if one.name != "amd64"]
ALL = pytest.mark.parametrize("arch", ARCHITECTURES.values(), ids=lambda one: one.name)
OTHERS = pytest.mark.parametrize("arch", FOREIGN, ids=lambda one: one.name)


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """The host has an amd64 processor, wherever the tests run."""
    amd64 = ARCHITECTURES["amd64"]
    for table in (architecture, archive, qemu):
        monkeypatch.setattr(table, "NATIVE", amd64)
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
    assert ("dma_win_size" in text) == (arch.machine == "pseries")


@OTHERS
def test_an_image_is_unpacked_and_runs_nothing(arch):
    wanted = recipe("sid", ["bc"], arch)
    words = _arguments(wanted, 7)
    assert {"--variant=extract", f"--architectures={arch.debian}"} <= {*words}
    (include,) = (word for word in words if word.startswith("--include="))
    packages = {*include.partition("=")[2].split(",")}
    assert {arch.kernel, "bc", "perftest"} <= packages
    # Essential packages are named, because no other package depends on them.
    assert {"coreutils", "diffutils", "grep", "gzip", "libc-bin", "sed", "tar"} <= packages
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


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"cpus": 9}, "cpus: armhf guests have at most 8 processors"),
        ({"memory_mib": 4096}, "memory: armhf guests have at most 3072 MiB of memory"),
    ],
)
def test_the_limits_of_a_machine_are_known_before_the_boot(others, why):
    """QEMU ended with its own message, once image and server were there."""
    with pytest.raises(LabError, match=f"^{why}$"):
        options(ARCHITECTURES["armhf"], **others)
    for arch in FOREIGN:
        options(arch, cpus=8, memory_mib=3072)


@OTHERS
def test_a_guest_that_runs_has_no_dump_either(arch, tmp_path):
    """The file would have said x86_64."""
    with pytest.raises(LabError, match=f"^{arch.name} guests have no dump of their memory$"):
        Guest(options(arch)).dump(tmp_path / "memory")
    assert not list(tmp_path.iterdir())


def kernel_file(arch):
    """The first bytes of a kernel of this architecture, by the documents of each."""
    data = bytearray(0x10010)
    match arch.debian:
        case "arm64":
            data[0x38:0x3C] = b"ARM\x64"
        case "armhf":
            data[0x24:0x28] = (0x016F2818).to_bytes(4, "little")
        case "riscv64":
            data[0x38:0x3C] = b"RSC\x05"
        case "s390x":
            data[0x10008:0x1000E] = b"S390EP"
        case "ppc64el":
            data[:6], data[18] = b"\x7fELF\x02\x01", 21
    return bytes(data)


@OTHERS
def test_a_kernel_file_is_that_of_the_architecture(arch, tmp_path):
    for other in FOREIGN:
        path = tmp_path / other.name
        path.write_bytes(kernel_file(other))
        if other.debian == arch.debian:
            assert choice.choose([str(path)], "sid", arch=arch) == choice.Chosen(path)
        else:
            with pytest.raises(LabError, match=rf"{path} is no .*: {arch.boot_file} is one"):
                choice.check([str(path)], arch)
    for wrong in (b"", b"HdrS", b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0"):
        path.write_bytes(wrong)
        with pytest.raises(LabError, match="is no "):
            choice.check([str(path)], arch)
    with pytest.raises(LabError, match=f"a kernel is a {arch.boot_file}, a build tree, packages"):
        choice.check([str(tmp_path / "absent")], arch)


@pytest.mark.parametrize("name", ["arm64", "riscv64"])
def test_a_compressed_efi_image_is_a_kernel(name, tmp_path):
    path = tmp_path / "vmlinuz.efi"
    path.write_bytes(b"MZ\0\0zimg" + bytes(64))
    choice.check([str(path)], ARCHITECTURES[name])
    with pytest.raises(LabError, match="is no bzImage of s390x"):
        choice.check([str(path)], ARCHITECTURES["s390x"])


@OTHERS
def test_a_build_tree_has_the_kernel_of_its_architecture(arch, tmp_path):
    why = f"has no {arch.boot_file}, which {arch.name} guests boot$"
    with pytest.raises(LabError, match=why):
        choice.check([str(tmp_path)], arch)
    for name in (".config", "modules.order"):
        (tmp_path / name).touch()
    (tmp_path / "linux").touch()  # User-Mode Linux is a program of the host
    with pytest.raises(LabError, match=why):
        choice.check([str(tmp_path)], arch)
    path = tmp_path / arch.boot_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(kernel_file(arch))
    assert choice.choose([str(tmp_path)], "sid", arch=arch) == choice.Chosen(path, tmp_path)


@OTHERS
def test_a_kernel_of_the_archive_is_that_of_the_architecture(arch):
    pattern = re.compile(archive.package_pattern("7.3", arch))
    wanted = f"linux-image-7.3.4+deb13{arch.kernel_suffix}"
    names = [f"linux-image-7.3.4+deb13{one.kernel_suffix}" for one in ARCHITECTURES.values()]
    assert [name for name in (*names, f"{wanted}-dbg") if pattern.fullmatch(name)] == [wanted]
    for flavour in ("rt", "cloud"):
        if flavour in arch.flavours:
            name = archive.package_pattern(flavour, arch)
            assert name == f"linux-image-{flavour}{arch.kernel_suffix}"
        else:
            why = f"no kernel debian:{flavour} of {arch.name}: a version such as debian:6.12$"
            with pytest.raises(LabError, match=why):
                choice.check([f"debian:{flavour}"], arch)


@needs_dpkg
@ALL
def test_a_package_of_another_processor_is_refused_before_the_boot(arch, tmp_path):
    """Its kernel was unpacked and started, and the boot failed after its time limit."""
    for debian in ("amd64", "arm64", "s390x", "all"):
        words = (str(build_package(tmp_path, f"linux-{debian}", {}, debian)),)
        requested = {"arch": arch.name, "kernel": words, "devices": ("connectx6",) * 2}
        if debian in (arch.debian, "all"):
            check_requested(requested)
            continue
        why = f"{words[0]} is a package of {debian}, and the guest is {arch.name}: arch {debian}"
        with pytest.raises(LabError, match=f"^kernel: {why} boots it$"):
            check_requested(requested)


@needs_dpkg
def test_each_package_of_a_kernel_is_checked(tmp_path):
    words = [
        str(build_package(tmp_path, f"linux-{debian}", {}, debian)) for debian in ("s390x", "m68k")
    ]
    with pytest.raises(LabError, match=r"linux-m68k\.deb is a package of m68k, .* is s390x$"):
        choice.check(words, ARCHITECTURES["s390x"])


@OTHERS
def test_modules_of_another_processor_are_refused(arch, tmp_path):
    """``elf`` makes modules of amd64."""
    kernel, tree = tmp_path / "kernel", tmp_path / "lib/modules/7.2-test"
    kernel.write_bytes(kernel_file(arch))
    tree.mkdir(parents=True)
    (tree / "ext4.ko").write_bytes(module(b""))
    (tree / "modules.dep").write_text("ext4.ko:\n")
    builtin = (f"virtio_{arch.virtio}", "virtio_blk", "virtio_console")
    (tree / "modules.builtin").write_text("".join(f"{name}.ko\n" for name in builtin))
    why = f"{tree}/ext4.ko is a module of amd64, and the guest is {arch.name}"
    with pytest.raises(LabError, match=f"^{why}$"):
        custom.prepare(options(arch, kernel=kernel, modules=tree), kernel, tmp_path)


def test_users_words_are_checked_for_the_architecture():
    with pytest.raises(LabError, match=r"^kernel: no kernel debian:rt of riscv64: a version"):
        check_requested({"arch": "riscv64", "kernel": ("debian:rt",)})
    check_requested({"arch": "arm64", "kernel": ("debian:rt",)})
    with pytest.raises(LabError, match="'arm46' is not one of"):
        check_requested({"arch": "arm46", "kernel": ("debian:rt",)})


def test_a_kernel_of_another_architecture_is_prepared_with_its_modules(tmp_path):
    """Its file names no release; the console and the bus are those of its machine."""
    arch = ARCHITECTURES["s390x"]
    kernel, tree = tmp_path / "bzImage", tmp_path / "lib/modules/7.2-test"
    kernel.write_bytes(kernel_file(arch))
    with pytest.raises(LabError, match="a kernel file of s390x needs --modules"):
        custom.prepare(options(arch, kernel=kernel), kernel, tmp_path)
    tree.mkdir(parents=True)
    names = ("virtio_ccw", "virtio_blk", "ext4", "virtio_console")
    for name in names:
        (tree / f"{name}.ko").write_bytes(name.encode())
    (tree / "modules.dep").write_text("".join(f"{name}.ko:\n" for name in names))
    (tmp_path / "work").mkdir()
    for modules in (tree, tmp_path):
        chosen = options(arch, kernel=kernel, modules=modules)
        prepared = custom.prepare(chosen, kernel, tmp_path / "work")
        assert (prepared.path, prepared.release) == (kernel, "7.2-test")
        assert [name for name, _ in prepared.boot_modules] == [f"{name}.ko" for name in names]
    (tmp_path / "config").write_text("CONFIG_SERIAL_8250_CONSOLE=y\n")
    with pytest.raises(LabError, match=r"lacks .*CONFIG_SCLP_CONSOLE, CONFIG_VIRTIO_CCW[\w, ]*$"):
        custom.prepare(chosen, kernel, tmp_path / "work")


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


@ALL
def test_a_fetched_qemu_has_the_programs_of_all_guests_of_its_directory(
    arch, tmp_path, monkeypatch
):
    """armhf and arm64 have one package: a QEMU fetched for one removed that of the other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(qemu, "source_line", "deb x {} main".format)
    fetched = []
    monkeypatch.setattr(qemu, "bootstrap_files", lambda *words, **_: fetched.append(words[4]))
    qemu._fetch(arch, tmp_path, None)
    sharing = [
        one for one in ARCHITECTURES.values() if qemu._directory(one) == qemu._directory(arch)
    ]
    assert {arch.name} <= {one.name for one in sharing}
    for other in ARCHITECTURES.values():
        is_kept = fetched[0].fullmatch(f"./usr/bin/qemu-system-{other.emulator}") is not None
        assert is_kept == (other in sharing)


def replace_program(program):
    other = program.with_name("mine")
    other.write_bytes(program.read_bytes())
    other.chmod(0o755)
    return other
