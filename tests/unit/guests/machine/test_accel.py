"""The answer whether KVM boots a kernel: when it is asked, and what is kept of it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from emu.guests.machine import accel
from emu.guests.machine.qemu import Qemu

IMAGE = SimpleNamespace(busybox=b"", kernel="/kernel")


class Program:
    """A QEMU whose script is given; ``runs`` counts how often it was started."""

    def __init__(self, directory):
        self.path, self.asked = directory / "qemu-system-x86_64", directory / "asked"
        self.asked.touch()

    def __call__(self, script):
        self.path.write_text(f"#!/bin/sh\necho >> {self.asked}\n{script}\n")
        self.path.chmod(0o755)
        return Qemu((str(self.path),), (11, 1, 3), "x")

    def runs(self):
        return self.asked.read_text().count("\n")


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(accel, "PROBE_TIMEOUT", 1.0)
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accel, "_DEVICE", device)
    return Program(tmp_path)


BOOTS = 'echo "mlx5emu: KVM works"'
SLOW = "exec sleep 60"
BROKEN = "echo 'KVM internal error. Suberror: 1' >&2; exec sleep 60"


@pytest.mark.parametrize(
    ("script", "answer", "is_certain"),
    [(BOOTS, True, True), ("exit 1", False, True), (BROKEN, False, True), (SLOW, False, False)],
    ids=["boots", "ends", "internal error", "slow"],
)
def test_an_answer_is_kept(program, script, answer, is_certain):
    qemu = program(script)
    assert accel.known_answer(qemu) is None
    for _ in range(3):
        assert accel.kvm_boots(qemu, IMAGE) == answer
    assert program.runs() == 1
    assert (accel.known_answer(qemu), accel.is_certain(qemu)) == (answer, is_certain)


@pytest.mark.parametrize(("script", "auto"), [(BOOTS, "kvm"), ("exit 1", "tcg")])
def test_kvm_is_tried_before_a_guest_uses_it(program, script, auto):
    """The answer says later whether a silent guest is worth waiting for."""
    qemu = program(script)
    assert accel.choose("tcg", qemu, IMAGE) == "tcg"
    assert program.runs() == 0
    assert accel.choose("kvm", qemu, IMAGE) == "kvm"
    assert accel.choose("auto", qemu, IMAGE) == auto
    assert program.runs() == 1


def test_a_slow_boot_is_tried_again(program, monkeypatch):
    """After a day, or when doctor asks; a certain answer is not."""
    assert accel.kvm_boots(program(SLOW), IMAGE) is False
    qemu = program(BOOTS)
    assert accel.kvm_boots(qemu, IMAGE) is False
    tomorrow = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    assert accel.known_answer(qemu) is None
    assert accel.kvm_boots(qemu, IMAGE, again=True) is True
    assert program.runs() == 2
    assert accel.kvm_boots(program("exit 1"), IMAGE, again=True) is True
    accel.forget()
    assert accel.known_answer(qemu) is None


def test_without_the_device_nothing_is_tried(program, tmp_path):
    (tmp_path / "kvm").unlink()
    qemu = program(BOOTS)
    assert accel.kvm_boots(qemu, IMAGE) is False
    assert not program.runs()


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: EPYC\n\nprocessor\t: 1\nmodel name\t: other\n", "EPYC"),
        (
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n",
            "0x41 0x3 0xd0c",
        ),
        ("", ""),
    ],
    ids=["x86", "arm64", "none"],
)
def test_the_processors_model_is_part_of_an_answers_key(cpuinfo, model):
    """An arm64 kernel names no model, so answers of all such hosts had one key."""
    assert accel._processor(cpuinfo) == model
