"""QEMU itself under the watch of a guest that stays; its firmware does nothing but reset."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading

from emu.guests.guest import watch
from emu.guests.guest.process import ChildListener, stop
from emu.guests.machine.qmp import Qmp

RESET = bytes([0xB0, 0xFE, 0xE6, 0x64, 0xF4])
"""mov al, 0xfe; out 0x64, al; hlt: the keyboard controller resets the machine."""


def test_a_machine_that_resets_goes_on_each_time(program, tmp_path, monkeypatch):
    """In QEMU's order of answers and events, which tells of a reset before it has answered."""
    rom = bytearray(b"\xf4" * (64 << 10))
    rom[-16 : len(RESET) - 16] = RESET
    (tmp_path / "rom").write_bytes(rom)
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
