"""A full disk is told before anything is fetched, with the place, the sizes and the next step."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import LabError, cache
from emu.guests.architecture import NATIVE
from emu.guests.archive.disk_space import DiskSpace, check_space, free_bytes
from emu.guests.guest import saved_boot
from emu.guests.image import image
from emu.guests.kernel import headers
from emu.guests.kernel.choice import choose
from emu.guests.machine import qemu

MB = 1_000_000


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Sets what is free; mmdebstrap, which would be run then, is one that fails."""
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLX5EMU_MIRROR", "http://archive.invalid/debian")

    def set_free(free):
        about = SimpleNamespace(f_frsize=4096, f_bfree=free // 4096, f_bavail=free // 4096)
        monkeypatch.setattr(os, "statvfs", lambda _: about)

    return set_free


@pytest.mark.parametrize(
    ("what", "begin"),
    [
        ("guest image trixie", lambda: image.ensure("trixie")),
        ("QEMU", lambda: qemu._fetch(NATIVE, cache.subdir("qemu"), None)),
        ("kernel debian:6.13", lambda: choose(["debian:6.13"], "trixie")),
        ("headers of Linux 6.13", lambda: headers.ensure("6.13", ["sid"])),
    ],
)
def test_what_is_fetched(what, begin, disk, tmp_path):
    disk(20 * MB)
    with pytest.raises(LabError) as caught:
        begin()
    said = str(caught.value)
    assert said.startswith(f"{what} needs ")
    assert f"B in {tmp_path}/cache/mlx5emu, where 20.0 MB are free: " in said
    assert said.endswith("(mlx5emu guest clean), or name another directory by XDG_CACHE_HOME")
    assert not (tmp_path / "begun").exists()
    disk(1 << 40)
    with pytest.raises(LabError, match="failed"):
        begin()
    assert (tmp_path / "begun").exists()


def test_a_user_sees_one_line(disk, monkeypatch):
    disk(20 * MB)
    monkeypatch.setattr(qemu, "find", lambda _: SimpleNamespace(version_text="11", origin="x"))
    result = CliRunner().invoke(main, ["guest", "build", "--suite", "sid"])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("mlx5emu: guest image sid needs ")


def test_trees_on_another_disk_have_a_variable_of_their_own(disk, tmp_path, monkeypatch):
    trees = tmp_path / "trees"
    trees.mkdir()
    monkeypatch.setenv("TMPDIR", str(trees))
    disk(20 * MB)
    check_space("X", DiskSpace(cached=10 * MB, tree=10 * MB - 4096))
    with pytest.raises(LabError, match=r"X needs 20\.0 MB in .*/cache/mlx5emu, .*XDG_CACHE_HOME"):
        check_space("X", DiskSpace(cached=10 * MB, tree=10 * MB + 4096))
    real = type(trees).stat
    other = SimpleNamespace(st_dev=-1, st_mode=real(trees).st_mode)
    monkeypatch.setattr(
        type(trees), "stat", lambda path, **how: other if path == trees else real(path, **how)
    )
    check_space("X", DiskSpace(cached=19 * MB, tree=19 * MB))
    with pytest.raises(LabError, match=r"X needs 30\.0 MB in .*/trees, .* by TMPDIR"):
        check_space("X", DiskSpace(cached=19 * MB, tree=30 * MB))


@pytest.mark.parametrize(("uid", "free"), [(0, 3 * 4096), (1000, 2 * 4096)])
def test_what_is_set_aside_for_root_is_roots(uid, free, tmp_path, monkeypatch):
    about = SimpleNamespace(f_frsize=4096, f_bfree=3, f_bavail=2)
    monkeypatch.setattr(os, "statvfs", lambda _: about)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert free_bytes(tmp_path) == free


def test_a_boot_is_not_saved_and_the_guest_boots(disk):
    disk(200 * MB)
    assert not saved_boot._has_space(2048)
    disk(400 * MB)
    assert saved_boot._has_space(2048)
    assert not saved_boot._has_space(64 << 10)
