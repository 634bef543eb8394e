"""Configuring and building a kernel, with a tree whose Makefile does as the kernel's."""

from __future__ import annotations

import os
import shutil
from types import SimpleNamespace

import pytest

from emu.guests import LabError
from emu.guests.kernel import kbuild, kconfig

MB = 1_000_000

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no make")

MAKEFILE = """
O ?= .
allnoconfig:
	@grep -v CONFIG_PVH $(KCONFIG_ALLCONFIG) > $(O)/.config
	@[ "$(ARCH)" != um ] || echo CONFIG_UML=y >> $(O)/.config
bzImage linux modules:
	@echo "$@" >> $(O)/built
"""


@pytest.fixture(autouse=True)
def no_tools_are_missing(monkeypatch):
    monkeypatch.setattr(kbuild, "check_tools", lambda: None)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "linux"
    root.mkdir()
    (root / "Makefile").write_text(MAKEFILE)
    return root


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_configuration_and_its_build(tree, tmp_path, elsewhere):
    output = tmp_path / "out" if elsewhere else None
    where = output or tree
    assert kbuild.configure(tree, ["kasan"], output) == ["PVH"]
    text = (where / ".config").read_text()
    assert "CONFIG_KASAN=y\n" in text
    assert "CONFIG_MLX5_CORE=m\n" in text
    assert kbuild.build(tree, output, 2) == where
    assert sorted((where / "built").read_text().split()) == ["bzImage", "modules"]


def test_a_kernel_for_user_mode_linux(tree, tmp_path):
    output = tmp_path / "out"
    assert kbuild.configure(tree, [], output, kconfig.UML) == []
    assert "CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID=1234\n" in (output / ".config").read_text()
    kbuild.build(tree, output, 2)
    assert sorted((output / "built").read_text().split()) == ["linux", "modules"]


def test_a_tree_that_is_none(tmp_path):
    with pytest.raises(LabError, match="it has no Makefile"):
        kbuild.configure(tmp_path, [], None)


def test_an_unknown_feature_changes_nothing(tree):
    with pytest.raises(LabError, match="no debugging feature"):
        kbuild.configure(tree, ["nosuch"], None)
    assert not (tree / ".config").exists()


def test_a_build_without_a_configuration(tree):
    with pytest.raises(LabError, match="mlx5emu kernel config writes one"):
        kbuild.build(tree, None, 1)


def test_a_build_that_fails(tree):
    (tree / ".config").write_text("")
    (tree / "Makefile").write_text("modules:\n\tfalse\nbzImage:\n")
    with pytest.raises(LabError, match=r"make modules failed in .* with status 2$"):
        kbuild.build(tree, None, 1)


@pytest.mark.parametrize(
    ("config", "is_first", "free", "needed"),
    [
        ("", True, 149 * MB, "150.0 MB"),
        ("", True, 150 * MB, None),
        ("CONFIG_DEBUG_INFO=y\n", True, 999 * MB, "1.0 GB"),
        ("CONFIG_DEBUG_INFO=y\n", True, 1000 * MB, None),
        ("CONFIG_DEBUG_INFO=y\n", False, 20 * MB, None),
    ],
)
def test_a_first_build_needs_space(tree, monkeypatch, config, is_first, free, needed):
    (tree / ".config").write_text(config)
    if not is_first:
        (tree / "vmlinux").touch()
    monkeypatch.setattr(kbuild, "free_bytes", lambda _: free)
    if needed is None:
        kbuild.build(tree, None, 1)
        return
    with pytest.raises(LabError) as caught:
        kbuild.build(tree, None, 1)
    assert str(caught.value) == (
        f"a first build needs at least {needed} in {tree}, where {free // MB}.0 MB are free: free"
        " some, or name another directory by --output"
    )
    assert not (tree / "built").exists()


def test_a_full_disk_is_told_before_make_runs(tree, monkeypatch):
    (tree / ".config").write_text("")
    (tree / "vmlinux").touch()
    full = SimpleNamespace(f_frsize=4096, f_bfree=100, f_bavail=100)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(LabError, match=r"^the disk of .* is full, --output names another"):
        kbuild.build(tree, None, 1)
    assert not (tree / "built").exists()


def test_a_disk_that_the_build_fills(tree, monkeypatch):
    (tree / ".config").write_text("")
    (tree / "Makefile").write_text("modules:\n\tfalse\nbzImage:\n")
    free = [1 << 40, 1 << 40, 1 << 10]
    monkeypatch.setattr(kbuild, "free_bytes", lambda _: free.pop(0))
    with pytest.raises(LabError, match=r"status 2: the disk of .* is full, --output names another"):
        kbuild.build(tree, None, 1)


def test_missing_tools_come_with_the_line_to_type(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kbuild, "_INCLUDE", (tmp_path,))
    with pytest.raises(
        LabError, match="apt-get install make gcc binutils flex bison bc libelf-dev"
    ):
        kbuild.check_tools()
