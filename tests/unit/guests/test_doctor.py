"""The lab's examination on machines that lack things."""

from __future__ import annotations

import pytest

from emu.compiled import building
from emu.compiled.loading import SETTING
from emu.compiled.sources import DEVICE
from emu.guests import cache, doctor
from emu.guests.architecture import ARCHITECTURES
from emu.guests.doctor import State
from emu.guests.image import recipe
from emu.guests.machine import accel
from emu.version import COMPILED, PURE


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any program, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MLX5EMU_MIRROR", "http://m/debian")
    monkeypatch.delenv("MLX5EMU_QEMU", raising=False)
    monkeypatch.setattr(accel, "_DEVICE", tmp_path / "kvm")
    return tmp_path


def examined():
    return {check.part: check for check in doctor.examine()}


def test_what_is_missing_comes_with_a_command(bare):
    checks = examined()
    assert checks["mmdebstrap"].state is State.BAD
    assert checks["mmdebstrap"].remedy == "apt-get install mmdebstrap"
    assert checks["package archive"].result == "http://m/debian, not contacted"


def test_what_is_made_when_it_is_needed_is_not_missing(bare):
    checks = examined()
    for part in ("QEMU", "KVM", "guest trixie", "guest sid", "libvfio-user"):
        assert checks[part].state is not State.BAD


def test_a_wrong_qemu_in_the_environment_is_said(bare, monkeypatch):
    monkeypatch.setenv("MLX5EMU_QEMU", "/nowhere")
    check = examined()["QEMU"]
    assert (check.state, check.remedy) == (State.BAD, "unset MLX5EMU_QEMU")


def test_with_all_in_the_cache_nothing_else_is_needed(bare):
    qemu = bare / "qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\necho 'version 11.1.3 \"vfio-user-pci\"'\n")
    qemu.chmod(0o755)
    wanted = recipe.recipe("trixie")
    image = cache.subdir("images") / wanted.name
    image.mkdir()
    info = {"suite": "trixie", "key": wanted.key, "release": "6", "rdma_core": "5", "built": "now"}
    cache.save_json(image / "info.json", info)
    checks = examined()
    assert checks["mmdebstrap"].state is State.NOTE
    assert checks["guest trixie"].state is State.GOOD
    assert checks["KVM"].state is State.NOTE


def test_an_image_of_another_processor_is_not_the_hosts(bare):
    """Its kernel is neither that of guests without --arch nor one that KVM could boot."""
    wanted = recipe.recipe("trixie", (), ARCHITECTURES["s390x"])
    image = cache.subdir("images") / wanted.name
    image.mkdir()
    info = {"suite": "trixie", "key": wanted.key, "release": "6-s390x", "rdma_core": "5"}
    cache.save_json(image / "info.json", info | {"built": "now", "arch": "s390x"})
    checks = examined()
    assert checks["guest trixie"].result.startswith("not built; ")
    assert checks["KVM"].result == "no accessible /dev/kvm: guests run on emulated processors"
    assert checks["mmdebstrap"].state is State.BAD
    told = checks["trixie s390x"]
    assert told.state is State.GOOD
    assert told.result.startswith("Linux 6-s390x, ")
    assert told.result.endswith("; qemu-system-s390x is fetched when it is needed")
    program = bare / "qemu-system-s390x"
    program.write_text("#!/bin/sh\necho 'version 11.1.3 \"vfio-user-pci\"'\n")
    program.chmod(0o755)
    assert "fetched" not in examined()["trixie s390x"].result


def test_pure_python_comes_with_its_reason(bare, monkeypatch):
    monkeypatch.setattr(doctor, "code", lambda: PURE)
    monkeypatch.setattr(doctor, "code_line", lambda: "pure Python")

    def line():
        check = examined()["device's code"]
        assert check.state is State.NOTE
        return check.result

    monkeypatch.setenv(SETTING, "0")
    assert line() == "pure Python; as MLX5EMU_COMPILED=0 says"
    monkeypatch.delenv(SETTING)
    monkeypatch.setattr(building, "missing", lambda: "no compiler")
    assert line() == "pure Python; no compiler"
    monkeypatch.setattr(building, "missing", lambda: "")
    assert line() == "pure Python; mlx5emu doctor --compile makes it faster"
    cache.save_text(cache.subdir("compiled") / f"{DEVICE.key()}.failed", "gcc: error")
    assert line() == "pure Python; the last build failed: gcc: error"


def test_compiled_code_has_the_hash_of_its_sources(bare, monkeypatch):
    monkeypatch.setattr(doctor, "code", lambda: COMPILED)
    monkeypatch.setattr(doctor, "code_line", lambda: "compiled (0123456789ab)")
    check = examined()["device's code"]
    assert (check.state, check.result) == (State.GOOD, "compiled (0123456789ab)")
