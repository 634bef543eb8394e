"""Saved boots in the cache."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from emu.guests.machine import saved
from emu.guests.machine.command_line import Machine
from emu.guests.machine.qemu import Qemu

PAGES = 4096


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without what one guest has for itself; its files exist."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    for name in ("vmlinux", "root", "initrd", "qemu"):
        (tmp_path / name).write_bytes(name.encode())
    return Machine(
        qemu=Qemu((str(tmp_path / "qemu"),), (11, 1, 3), "x"),
        accelerator="tcg",
        kernel=tmp_path / "vmlinux",
        initrd=tmp_path / "initrd",
        disks=(tmp_path / "root",),
    )


def make(name: str, used: int) -> Path:
    boot = saved.SavedBoot(saved.place_of(name))
    boot.path.mkdir()
    boot.memory.write_bytes(bytes(PAGES))
    os.utime(boot.path, (used, used))
    return boot.path


@pytest.mark.parametrize("change", [
    {"memory_mib": 1024},
    {"cpus": 1},
    {"kernel_arguments": ("loglevel=7",)},
    {"qemu": Qemu(("qemu",), (11, 1, 4), "x")},
])  # fmt: skip
def test_another_machine_has_another_name(bare, change):
    assert saved.name_of("trixie", replace(bare, **change)) != saved.name_of("trixie", bare)


@pytest.mark.parametrize("file", ["vmlinux", "root", "initrd", "qemu"])
def test_a_file_that_is_built_again_gives_another_name(bare, tmp_path, file):
    before = saved.name_of("trixie", bare)
    (tmp_path / file).write_bytes(b"other")
    assert saved.name_of("trixie", bare) != before


def test_where_the_initramfs_is_does_not_matter(bare, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(bare.initrd.read_bytes())
    assert saved.name_of("sid", replace(bare, initrd=elsewhere)) == saved.name_of("sid", bare)


def test_the_second_guest_is_worth_saving(bare):
    assert not saved.should_save("trixie-1")
    saved.note_booted("trixie-1")
    assert saved.should_save("trixie-1")
    assert not saved.should_save("trixie-2")


def test_a_machine_that_does_not_boot_is_not_worth_saving(bare):
    """A guest that begins has not booted yet."""
    assert [saved.should_save("trixie-1") for _ in range(2)] == [False, False]


def test_what_cannot_be_saved_is_not_tried_again(bare):
    saved.note_booted("trixie-1")
    saved.note_failure("trixie-1")
    saved.note_booted("trixie-1")
    assert not saved.should_save("trixie-1")
    saved.remove_all()
    saved.note_booted("trixie-1")
    assert saved.should_save("trixie-1")


def test_those_used_last_are_kept(bare):
    boots = [make(f"trixie-{number}", used=number) for number in range(saved.KEPT + 2)]
    assert saved.find("trixie-0") is not None  # used now
    saved.remove_oldest()
    assert [path.exists() for path in boots[:4]] == [True, False, False, True]


def test_one_without_memory_is_none(bare):
    saved.place_of("trixie-1").mkdir()
    assert saved.find("trixie-1") is None


def test_those_of_a_suite_are_removed(bare):
    sid, trixie = make("sid-1", used=1), make("trixie-1", used=1)
    assert saved.remove_all(["sid"]) == PAGES
    assert (sid.exists(), trixie.exists()) == (False, True)
    assert saved.remove_all() == PAGES
    assert not trixie.exists()


def test_others_remove_boots_as_well(bare, monkeypatch):
    """Another process makes room between a look and what follows it."""
    boots = [make(f"trixie-{number}", used=number) for number in range(saved.KEPT)]
    gone = make("trixie-gone", used=99)
    everything = saved._all()
    monkeypatch.setattr(saved, "_all", lambda: everything)
    saved.SavedBoot(gone).remove()
    saved.remove_oldest()
    assert all(boot.exists() for boot in boots)
    monkeypatch.setattr(os, "utime", lambda path: os.stat(path / "nothing"))
    assert saved.find("trixie-0") is None
