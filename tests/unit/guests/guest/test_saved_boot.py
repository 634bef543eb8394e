"""A guest that goes on from a saved boot, as far as QEMU and the guest are told of it."""

from __future__ import annotations

import gc
import json
import re
import shlex
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from emu.guests import cache
from emu.guests.errors import GuestError
from emu.guests.guest import saved_boot
from emu.guests.guest.saved_boot import can_be_saved, resume
from emu.guests.machine import saved
from emu.guests.machine.command_line import Machine
from emu.guests.machine.initramfs import settings
from emu.guests.machine.qemu import Qemu
from emu.guests.machine.qmp import Qmp
from emu.guests.machine.saved import SavedBoot
from emu.guests.options import GuestOptions

MACHINE = Machine(
    qemu=Qemu(("qemu",), (11, 1, 3), "x"), accelerator="tcg", kernel=Path("k"), initrd=Path("i")
)


class Monitor:
    """QEMU's end of QMP: answers each command by its name, and keeps what it was told."""

    def __init__(self, **answers):
        ours, theirs = socket.socketpair()
        self.told, self.typed = [], []
        self._answers = answers
        self._socket = theirs
        threading.Thread(target=self._serve, daemon=True).start()
        self.qmp = Qmp(ours, 10)

    def _serve(self):
        lines = self._socket.makefile("rw")
        print(json.dumps({"QMP": {}}), file=lines, flush=True)
        for line in lines:
            request = json.loads(line)
            self.told.append(request["execute"])
            self.typed += filter(None, [request["arguments"].get("command-line")])
            answer = self._answers.get(request["execute"], {"return": {}})
            print(json.dumps(answer), file=lines, flush=True)


@pytest.fixture
def boot(tmp_path):
    """A saved boot."""
    boot = SavedBoot(tmp_path / "trixie-1")
    boot.path.mkdir()
    boot.memory.touch()
    return boot


@pytest.fixture
def port():
    """Our end of the port into the guest, and the guest's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_the_guest_is_told_what_it_is_to_be(boot, port):
    monitor = Monitor(**{"query-migrate": {"return": {"status": "completed"}}})
    resume(monitor.qmp, port[0], boot, settings({"shares": "share=ro out=rw", "network": 1}))
    assert monitor.told[-4:] == ["migrate-incoming", "query-migrate", "query-pci", "cont"]
    said = port[1].recv(1000)
    assert said.endswith(b"\0")
    lines = dict(line.split("=", 1) for line in said[:-1].decode().splitlines())
    assert shlex.split(lines["shares"]) == ["share=ro out=rw"]
    assert lines["network"] == "1"
    assert re.fullmatch(r"\d{10}", lines["now"])


def test_buses_have_the_numbers_of_a_boot(boot, port):
    """By the registers 0x18 of the bridges, in the order of their slots."""
    devices = [{"slot": 3, "pci_bridge": {}}, {"slot": 1}, {"slot": 2, "pci_bridge": {}}]
    answers = {
        "query-migrate": {"return": {"status": "completed"}},
        "query-pci": {"return": [{"bus": 0, "devices": devices}]},
        "human-monitor-command": {"return": ""},
    }
    monitor = Monitor(**answers)
    resume(monitor.qmp, port[0], boot, "")
    assert monitor.told[-1] == "cont"
    assert monitor.typed == [
        "o/w 0xcf8 0x80001018", "o/w 0xcfc 0x10100", "o/w 0xcf8 0x80001818", "o/w 0xcfc 0x20200",
    ]  # fmt: skip


@pytest.mark.hostile
@pytest.mark.parametrize("answers", [
    {"query-migrate": {"return": {"status": "failed", "error-desc": "no such section"}}},
    {"query-migrate": {"return": {"status": "failed"}}},
    {"migrate-incoming": {"error": {"desc": "no such section"}}},
])  # fmt: skip
def test_one_that_qemu_does_not_take_is_removed(boot, port, answers):
    why = "the saved boot trixie-1 cannot be resumed, and is removed: "
    with pytest.raises(GuestError, match=why):
        resume(Monitor(**answers).qmp, port[0], boot, "")
    assert not boot.path.exists()


@pytest.mark.parametrize(("said", "saved"), [
    ({}, True),
    ({"probe": False, "network": True}, True),
    ({"cold": True}, False),
    ({"qemu_arguments": ("-device", "x")}, False),
    ({"icount": 1}, False),
    ({"gdb": True}, False),
    ({"verbose": True}, False),
])  # fmt: skip
def test_which_guests_go_on_from_a_saved_boot(said, saved):
    assert can_be_saved(GuestOptions(**said), MACHINE) is saved


FAKE_QEMU = """
import json, socket, sys
control, port = (socket.socket(socket.AF_UNIX) for _ in range(2))
control.connect(sys.argv[1])
lines = control.makefile("rw")
print(json.dumps({"QMP": {}}), file=lines, flush=True)
lines.readline()
print(json.dumps({"return": {}}), file=lines, flush=True)
port.connect(sys.argv[2])
"""
"""A QEMU whose guest ends before its boot can be saved."""


def test_a_boot_that_cannot_be_saved_leaves_nothing_behind(tmp_path, monkeypatch, caplog):
    """The guest boots from the start, and no connection stays open (pytest would say so)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "i").write_bytes(b"")
    machine = replace(MACHINE, initrd=tmp_path / "i")
    monkeypatch.setattr(saved_boot, "bare_machine", lambda *_: machine)
    monkeypatch.setattr(
        saved_boot, "arguments",
        lambda bare: [sys.executable, "-c", FAKE_QEMU, str(bare.control), str(bare.port)],
    )  # fmt: skip
    begun = saved_boot.beginning(GuestOptions(), machine)
    assert begun.boot is None
    begun.note_up()
    again = saved_boot.beginning(GuestOptions(), machine)
    gc.collect()
    assert again == begun
    assert "the boot is not saved: the guest has ended" in caplog.text
    assert not saved.should_save(begun.name)
    assert not list(cache.subdir("boots").glob("[!.]*"))
