"""QEMU itself under the watch of a guest that stays; its firmware is a few instructions."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading

import pytest

from emu.guests.guest import watch
from emu.guests.guest.process import ChildListener, stop
from emu.guests.machine.accel import is_accessible
from emu.guests.machine.qmp import Qmp

RESET = bytes([0xB0, 0xFE, 0xE6, 0x64, 0xF4])
"""mov al, 0xfe; out 0x64, al; hlt: the keyboard controller resets the machine."""
INT3 = b"\xcc"
"""Not known to KVM's instruction emulator, which runs all of a guest on some nested hosts."""


def write_firmware(path, code):
    """Write a ROM that begins with ``code`` at the reset vector."""
    rom = bytearray(b"\xf4" * (64 << 10))
    rom[-16 : len(code) - 16] = code
    path.write_bytes(rom)


@pytest.mark.skipif(not is_accessible(), reason="no access to /dev/kvm")
def test_a_machine_that_kvm_cannot_run_is_reported(program, tmp_path):
    write_firmware(tmp_path / "rom", INT3)
    told = queue.SimpleQueue()
    stay = watch.StayCallbacks(lambda: told.put("reboot"), told.put)
    watched = watch.Watch(None, tmp_path, lambda: "", stay)
    words = ["-nodefaults", "-display", "none", "-machine", "q35", "-m", "16M", "-accel", "kvm"]
    words += ["-bios", str(tmp_path / "rom"), "-qmp", f"unix:{watched.control},server=off"]
    process = subprocess.Popen([*program.command, *words], stderr=subprocess.PIPE)
    try:
        watched.start(process)
        error = told.get(timeout=5)
        assert str(error) == watch.CANNOT_RUN
    except queue.Empty:
        stop(process)
        if b"KVM internal error" in process.stderr.read():
            raise
        pytest.skip("this KVM runs every instruction of the firmware")
    finally:
        stop(process)
        process.stderr.close()
        watched.close()


def test_a_machine_that_resets_goes_on_each_time(program, tmp_path, monkeypatch):
    """In QEMU's order of answers and events, which tells of a reset before it has answered."""
    write_firmware(tmp_path / "rom", RESET)
    told, watching = queue.SimpleQueue(), threading.Event()

    class Events(Qmp):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            watching.set()

    monkeypatch.setattr(watch, "Qmp", Events)
    stay = watch.StayCallbacks(lambda: told.put("reboot"), told.put)
    watched = watch.Watch(None, tmp_path, lambda: "", stay)
    with ChildListener(tmp_path / "qmp") as control:
        words = ["-S", "-nodefaults", "-display", "none", "-machine", "q35", "-m", "16M"]
        words += ["-accel", "tcg", "-bios", str(tmp_path / "rom"), "-action", "reboot=shutdown"]
        words += ["-action", "shutdown=pause", "-qmp", f"unix:{control.path},server=off"]
        words += ["-qmp", f"unix:{watched.control},server=off"]
        process = subprocess.Popen([*program.command, *words])
        try:
            watched.start(process)
            with contextlib.closing(Qmp(control.accept(process, 60))) as qmp:
                assert watching.wait(60)
                qmp.execute("cont")
                assert [told.get(timeout=60) for _ in range(5)] == ["reboot"] * 5
        finally:
            stop(process)
            watched.close()
