"""A guest whose kernel is a process: what is one, and what it is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from emu.guests import GuestOptions, LabError
from emu.guests.guest.uml_vm import UmlVm
from emu.guests.image import image
from emu.guests.kernel import kconfig
from emu.guests.kernel.binaries import is_uml
from emu.guests.kernel.choice import Chosen, choose
from emu.guests.machine import initramfs, uml
from emu.guests.options import OptionError
from emu.guests.requested import requested

ELF = b"\x7fELF"


@pytest.fixture
def kernel(tmp_path):
    """A program that says its release as User-Mode Linux does; it has no configuration inside."""
    path = tmp_path / "linux"
    path.write_text("#!/bin/sh\n[ $1 = --version ] && echo 6.12.117\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def command(monkeypatch, tmp_path, kernel):
    """The command line for some options; the initramfs keeps what its init is told."""
    root = SimpleNamespace(busybox=b"", root_disk=Path("/images/root.ext4"))
    monkeypatch.setattr(image, "ensure", lambda *_, **_options: root)
    told = {}
    monkeypatch.setattr(
        initramfs, "build", lambda _busybox, _modules, config: told.update(config) or b""
    )

    def make(functions=(), **options):
        made = GuestOptions(kernel=kernel, **options)
        inherited = uml.Descriptors(port=8, console=9)
        words = uml.command(made, tmp_path, functions, inherited)
        return words, told

    return make


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ELF + b"\0" * 5000 + b"User Mode Linux v%s\n", True),
        (ELF + b"\0" * 5000, False),
        (b"#!/bin/sh\n# User Mode Linux v", False),
        (b"", False),
    ],
)
def test_what_is_one(tmp_path, content, expected):
    path = tmp_path / "linux"
    path.write_bytes(content)
    assert is_uml(path) is expected


def test_none_is_none(tmp_path):
    assert not is_uml(None)
    assert not is_uml(tmp_path / "absent")


def test_the_release(kernel):
    assert uml.release(kernel) == "6.12.117"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho\n", "garbage"])
def test_a_program_that_says_none(tmp_path, text):
    path = tmp_path / "linux"
    path.write_text(text)
    path.chmod(0o755)
    with pytest.raises(LabError, match=r"reports no kernel release|cannot run the kernel"):
        uml.release(path)


def test_the_command_line(command, kernel, tmp_path):
    words, told = command([Path("/run/f0"), Path("/run/f1")], kernel_arguments=("quiet",))
    assert words[0] == str(kernel)
    assert f"ubd0c={tmp_path}/root.cow,/images/root.ext4" in words
    assert "ssl0=fd:8" in words
    assert "con0=null,fd:9" in words
    assert [word for word in words if word.startswith("virtio_uml")] == [
        "virtio_uml.device=/run/f0:1234",
        "virtio_uml.device=/run/f1:1234",
    ]
    assert words[-1] == "quiet"
    assert (told["root"], told["port"], told["probe"]) == ("/dev/ubda", "/dev/ttyS0", 1)


def test_directories_of_the_host(command, tmp_path):
    share, out, modules = tmp_path / "share", tmp_path / "out", tmp_path / "modules"
    for path in (share, out, modules):
        path.mkdir()
    (modules / "modules.dep").touch()
    _, told = command(share=share, out=out, modules=modules)
    assert told["shares"] == "share=ro out=rw"
    assert (told["host_share"], told["host_out"]) == (str(share), str(out))
    assert told["host_modules"] == str(modules)


def test_a_directory_that_mount_would_take_apart(command, tmp_path):
    share = tmp_path / "a,b"
    share.mkdir()
    with pytest.raises(LabError, match="has a comma"):
        command(share=share)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"network": True, "hugepages": 8},
            "--network, --hugepages: not supported with User-Mode",
        ),
        ({"icount": 3}, "--icount: not"),
        ({"accelerator": "kvm"}, "--accel kvm: not"),
        ({"qemu_arguments": ("-S",)}, "--qemu-arg: not"),
        ({"gdb": True}, "--gdb: not"),
        ({"transport": "libvfio-user"}, "--transport: not"),
        ({"stays": True}, "supports one command"),
        ({"devices": ("connectx6,vfs=1",)}, "vfs: not supported with User-Mode Linux"),
        ({"devices": ("connectx6",) * 9}, "9 functions: User-Mode Linux has at most 8"),
    ],
)
def test_what_it_cannot_do(kernel, options, why):
    with pytest.raises(LabError, match=why):
        UmlVm(GuestOptions(kernel=kernel, **options), lambda _error: None)


@pytest.mark.parametrize("named", ["linux", ""], ids=["file", "directory"])
def test_virtual_functions_are_a_wrong_option(tmp_path, named):
    (tmp_path / "linux").write_bytes(b"\x7fELF\0User Mode Linux v6.12\0")
    words = {"kernel": (str(tmp_path / named),)}
    assert requested(words | {"devices": ("connectx6dx",)}).kernel == tmp_path / "linux"
    with pytest.raises(OptionError, match=r"^devices: vfs: not supported with User-Mode Linux"):
        requested(words | {"devices": ("connectx6dx", "connectx6,vfs=1")})


def test_a_kernel_that_lacks_something(command, kernel):
    config = kernel.parent / "config"
    config.write_text("CONFIG_UML=y\n")
    with pytest.raises(LabError, match=r"lacks CONFIG_BLK_DEV_INITRD, .*DEVICE_ID=1234: mlx5emu"):
        command()
    options = kconfig.smallest([], kconfig.UML)
    config.write_text("".join(f"CONFIG_{name}={value}\n" for name, value in options.items()))
    command()


def test_a_build_tree_of_it(kernel, tmp_path):
    (tmp_path / "modules.order").touch()
    (tmp_path / ".config").write_text("CONFIG_UML=y\n")
    assert choose([str(tmp_path)], "trixie") == Chosen(kernel, tmp_path)


def test_the_smallest_configurations():
    """What is only for one machine is not in the other's."""
    for_qemu, for_uml = kconfig.smallest([]), kconfig.smallest([], kconfig.UML)
    assert "UML_PCI_OVER_VIRTIO" not in for_qemu
    assert not {"SERIAL_8250", "VIRTIO_PCI", "KVM_GUEST"} & set(for_uml)
    assert for_uml["MLX5_CORE"] == for_qemu["MLX5_CORE"] == "m"
    assert for_uml["UML_PCI_OVER_VIRTIO_DEVICE_ID"] == "1234"


def test_a_kernel_with_kcov_is_not_instrumented_as_a_whole():
    """It would not start."""
    assert kconfig.smallest(["kcov"])["KCOV_INSTRUMENT_ALL"] == "y"
    options = kconfig.smallest(["kcov"], kconfig.UML)
    assert (options["KCOV"], options["KCOV_INSTRUMENT_ALL"]) == ("y", "n")
