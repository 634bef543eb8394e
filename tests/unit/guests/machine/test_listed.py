"""Modules that a kernel has, known before the boot."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import GuestOptions, LabError, cache
from emu.guests.image.recipe import recipe
from emu.guests.machine.listed import listed_modules

DEP = "kernel/net/mlx5_core.ko.xz: kernel/a-b.ko.xz\nkernel/a-b.ko.xz:\n"
BUILT_IN = "kernel/fs/ext4/ext4.ko\n"


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def image():
    """An image of trixie, as far as the check reads it."""
    path = cache.subdir("images") / recipe("trixie", ()).name
    path.mkdir()
    about = dict.fromkeys(("suite", "key", "release", "rdma_core", "built"), "x")
    (path / "info.json").write_text(json.dumps(about))
    (path / "modules.dep").write_text(DEP)
    (path / "modules.builtin").write_text(BUILT_IN)
    return path


def own(tree):
    kernel = tree / "vmlinuz"
    kernel.touch()
    return GuestOptions(kernel=kernel, modules=tree)


@pytest.mark.parametrize("below", ["", "6.12", "lib/modules/6.12", "usr/lib/modules/6.12"])
def test_the_modules_of_a_tree(tmp_path, below):
    tree = tmp_path / "tree" / below
    tree.mkdir(parents=True)
    (tree / "modules.dep").write_text(DEP)
    found = listed_modules(own(tmp_path / "tree"))
    assert (found.loadable, found.built_in) == ({"mlx5_core", "a_b"}, frozenset())


@pytest.mark.parametrize("order", ["kernel/net/mlx5_core.ko\n", "net/mlx5_core.o\n"])
def test_the_modules_of_a_build_tree(tmp_path, order):
    (tmp_path / ".config").touch()
    (tmp_path / "modules.order").write_text(order)
    (tmp_path / "modules.builtin").write_text(BUILT_IN)
    found = listed_modules(own(tmp_path))
    assert (found.loadable, found.built_in) == ({"mlx5_core"}, {"ext4"})


def test_what_is_not_known_is_not_refused(tmp_path, image):
    assert listed_modules(GuestOptions(suite="sid")) is None
    assert listed_modules(GuestOptions(packages=("bpftrace",))) is None
    assert listed_modules(own(tmp_path)) is None
    (image / "modules.dep").unlink()
    assert listed_modules(GuestOptions()) is None


def test_a_module_that_the_image_lacks_comes_with_near_names(image):
    modules = listed_modules(GuestOptions())
    modules.check("a_b")
    with pytest.raises(LabError, match="the kernel has no module mlx5_cor; near it: mlx5_core"):
        modules.check("mlx5_cor")
    with pytest.raises(LabError, match="ext4 is built into the kernel"):
        modules.check("ext4")


@pytest.mark.parametrize(
    "words", [("run", "--coverage", "X", "true"), ("rdma-tests", "--coverage", "X")]
)
def test_commands_refuse_it_before_the_boot(image, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    words = [word.replace("X", "mlx5_core,nosuch") for word in words]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "--coverage: the kernel has no module nosuch" in result.output
