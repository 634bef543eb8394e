"""A guest that stops: what QEMU is asked for then, and who is told."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys

import pytest

from emu.guests.errors import GuestPanicError, GuestStoppedError
from emu.guests.guest import dump, watch

PANIC = "Kernel panic - not syncing: why"
RESET = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-reset"}}
OFF = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-shutdown"}}
AGAIN = ["set-action", "system_reset", "set-action", "cont"]


class Qemu:
    """QEMU's end of the connection: takes commands, and tells of what is to be told."""

    def __init__(self, tmp_path, *, path=None, stays=True):
        self.said = ""
        self.resets = 0
        self.status = "shutdown"
        self.told = queue.SimpleQueue()
        stay = (
            watch.StayCallbacks(lambda: self.told.put("reboot"), self.told.put) if stays else None
        )
        self.watch = watch.Watch(path, tmp_path, lambda: self.said, stay)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(self.watch.control))
        self.watch.start(self.process)
        self._tell({"QMP": {}})
        self._lines = self._socket.makefile("rb")
        assert self.take(1) == ["qmp_capabilities"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._socket.close()
        self.process.communicate(b"\n", timeout=30)
        self.watch.close()

    def _tell(self, message):
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def stop(self, event, said):
        """The machine stops, with this on its console."""
        self.said = said
        self.pause()
        self.answer_status()
        self._tell(event)

    def fail(self):
        """KVM cannot run an instruction: the machine stops without a SHUTDOWN."""
        self.status = "internal-error"
        self.pause()

    def pause(self):
        self._tell({"event": "STOP"})

    def answer_status(self):
        """Answer one question for the status; return the answer."""
        assert json.loads(self._lines.readline())["execute"] == "query-status"
        self._tell({"return": {"running": False, "status": self.status}})
        return self.status

    def take(self, count):
        """Answer so many commands, and return them."""
        names = []
        for _ in range(count):
            asked = json.loads(self._lines.readline())
            names.append(asked["execute"])
            told: list[dict] = [{"return": {}}]
            if names[-1] == "system_reset":  # QEMU tells of it before or after the answer
                told.insert(self.resets % 2, {"event": "RESET"})
                self.resets += 1
            for message in told:
                self._tell(message)
        return names


@pytest.fixture(autouse=True)
def no_header(monkeypatch):
    monkeypatch.setattr(dump, "complete", lambda _: None)


@pytest.mark.parametrize(
    ("said", "asked", "outcome"),
    [
        (PANIC, ["dump-guest-memory", "quit"], "its memory was saved in"),
        ("it powers off", ["quit"], ""),
    ],
)
def test_only_a_panic_is_kept(tmp_path, said, asked, outcome):
    with Qemu(tmp_path, path=tmp_path / "memory", stays=False) as qemu:
        qemu.stop(RESET, said)
        assert qemu.take(len(asked)) == asked
    assert outcome in qemu.watch.outcome


def test_a_guest_that_reboots_comes_back(tmp_path):
    with Qemu(tmp_path) as qemu:
        for turn in (1, 2):
            qemu.stop(RESET, "it restarts\n" * turn)
            assert qemu.told.get(timeout=30) == "reboot"
            assert qemu.take(4) == AGAIN
    assert qemu.told.empty()


def test_a_guest_that_panics_after_a_reboot_stays(tmp_path):
    with Qemu(tmp_path, path=tmp_path / "memory") as qemu:
        qemu.stop(RESET, "it restarts\n")
        qemu.take(4)
        qemu.stop(RESET, f"it restarts\n{PANIC}\n")
        assert qemu.take(1) == ["dump-guest-memory"]
        assert qemu.told.get(timeout=30) == "reboot"
        error = qemu.told.get(timeout=30)
    assert isinstance(error, GuestPanicError)
    assert str(error).startswith(f"the guest panicked: why; its memory was saved in {tmp_path}")


def test_qemu_ends_when_kvm_cannot_run_the_guest(tmp_path):
    with Qemu(tmp_path, stays=False) as qemu:
        qemu.fail()
        assert qemu.answer_status() == "internal-error"
        assert qemu.take(1) == ["quit"]
    assert qemu.watch.cannot_run


def test_a_guest_that_stays_reports_that_kvm_cannot_run_it(tmp_path):
    with Qemu(tmp_path) as qemu:
        qemu.fail()
        assert qemu.answer_status() == "internal-error"
        error = qemu.told.get(timeout=30)
    assert isinstance(error, GuestStoppedError)
    assert str(error) == watch.CANNOT_RUN


def test_a_machine_that_a_debugger_stops_is_left_alone(tmp_path):
    with Qemu(tmp_path) as qemu:
        qemu.status = "paused"
        qemu.pause()
        assert qemu.answer_status() == "paused"
        qemu.stop(RESET, "restarts")
        assert qemu.take(4) == AGAIN
        assert qemu.told.get(timeout=30) == "reboot"
    assert qemu.told.empty()


def test_an_earlier_panic_is_no_reason_later(tmp_path):
    """One whose memory a debugger has kept, say, and that was reset by hand."""
    with Qemu(tmp_path) as qemu:
        qemu.stop(RESET, "restarts")
        qemu.take(4)
        qemu.stop(OFF, f"restarts{'x' * 10}")
        assert qemu.told.get(timeout=30) == "reboot"
        error = qemu.told.get(timeout=30)
    assert isinstance(error, GuestStoppedError)
    assert str(error) == "the guest powered off"
