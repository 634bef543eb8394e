"""Finding a QEMU, talking to one, reading what its guest's console said."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import emu.guests
from emu.cli.main import main
from emu.cli.shared import attached
from emu.guests.errors import GuestError, LabError
from emu.guests.guest import console
from emu.guests.machine import qemu
from emu.guests.machine.qmp import Qmp
from emu.server.service.devicespec import parse_all
from emu.server.service.endpoints import ServedDevice, with_vfs


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MLX5EMU_QEMU", raising=False)


@pytest.fixture
def install(tmp_path):
    """A program that answers as a QEMU of some version."""

    def write(version, devices='name "vfio-user-pci", bus PCI', name="qemu-system-x86_64"):
        path = tmp_path / name
        path.write_text(
            "#!/bin/sh\n"
            f"echo asked >> {path}.log\n"
            f'[ "$1" = --version ] && echo "QEMU emulator version {version} (Debian)"\n'
            f"[ \"$1\" = -device ] && echo '{devices}'\n"
            "exit 0\n"
        )
        path.chmod(0o755)
        return path

    return write


def test_a_new_enough_system_qemu_is_used(install):
    path = install("10.1.0")
    found = qemu.find()
    assert (found.command, found.version, found.origin) == ((str(path),), (10, 1, 0), "system")
    assert found.version_text == "10.1.0"


@pytest.mark.parametrize(("version", "devices"), [("10.0.8", None), ("11.0.0", "vfio-pci")])
def test_an_old_or_poor_one_is_not(install, version, devices):
    install(version, devices or 'name "vfio-user-pci"')
    assert qemu.find() is None


def test_it_is_asked_once(install):
    path = install("11.1.3")
    for _ in range(3):
        assert qemu.find().version == (11, 1, 3)
    assert (path.parent / f"{path.name}.log").read_text() == "asked\n" * 2


def test_the_environment_goes_first(install, monkeypatch):
    install("10.1.0")
    monkeypatch.setenv("MLX5EMU_QEMU", str(install("12.0.0", name="mine")))
    assert qemu.find().version == (12, 0, 0)
    monkeypatch.setenv("MLX5EMU_QEMU", "/nowhere/qemu")
    with pytest.raises(LabError, match=r"/nowhere/qemu is not QEMU 10\.1 or newer"):
        qemu.find()


def test_the_cached_one_is_started_by_a_script(install, tmp_path):
    """With its own loader and libraries, from a directory whose name a shell would split."""
    cached = tmp_path / "cache" / "mlx5emu" / "qemu" / "it's unpacked"
    loader = install("11.1.3", name="loader")
    found = qemu.Qemu((str(loader), "--library-path", str(cached)), (11, 1, 3), "cache")
    path = qemu.program_path(found)
    assert path.name == "qemu-system-x86_64"
    loader.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said = subprocess.run([path, "-a", "b c"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["--library-path", str(cached), "-a", "b c"]
    assert qemu.program_path(found) == path


def test_the_system_s_is_its_own_program(install):
    path = install("10.1.0")
    assert qemu.program_path(qemu.find()) == path


def test_it_is_printed(install):
    path = install("10.1.0")
    result = CliRunner().invoke(main, ["qemu"])
    assert (result.exit_code, result.output) == (0, f"{path}\n")


def test_serve_shows_it_in_an_example(install, tmp_path):
    specs = parse_all(["connectx6", "connectx6dx"])
    served = [*map(ServedDevice, (tmp_path / "a", tmp_path / "b"), specs)]
    said = attached.example(served)
    assert said.startswith('"$(mlx5emu qemu)" -machine q35')
    path = install("10.1.0")
    said = attached.example(served)
    words = shlex.split(said)
    assert words[0] == str(path)
    devices = [json.loads(word) for word in words if word.startswith("{")]
    assert [device["bus"] for device in devices] == ["port1", "port2"]
    assert not any("addr" in device for device in devices)


def test_serve_shows_virtual_functions_behind_their_physical_one(tmp_path):
    specs = parse_all(["connectx6", "connectx6dx,vfs=2"])
    served = with_vfs([*map(ServedDevice, (tmp_path / "a", tmp_path / "b"), specs)])
    said = attached.example(served)
    assert "id=port2,chassis=2,slot=2,pref64-reserve=34M" in said
    devices = [json.loads(word) for word in shlex.split(said) if word.startswith("{")]
    assert [(one["bus"], one.get("addr")) for one in devices] == [
        ("port1", None), ("port2", "0.0"), ("port2", "0.1"), ("port2", "0.2"),
    ]  # fmt: skip
    assert devices[3]["socket"]["path"] == str(tmp_path / "b.vf1")


class FakeQemu:
    """The other end of a control connection, with its answers in order."""

    def __init__(self, *replies):
        self.ours, self._theirs = socket.socketpair()
        self.commands = []
        self._replies = replies
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        with self._theirs, self._theirs.makefile("rwb") as stream:
            stream.write(b'{"QMP": {"version": {}}}\n')
            stream.flush()
            for reply in ({"return": {}}, *self._replies):
                self.commands.append(json.loads(stream.readline()))
                stream.write(b'{"event": "RESET"}\n' + json.dumps(reply).encode() + b"\n")
                stream.flush()

    def close(self):
        self._thread.join(10)


@pytest.fixture
def control():
    opened = []

    def connect(*replies):
        fake = FakeQemu(*replies)
        qmp = Qmp(fake.ours)
        opened.extend((fake, qmp))
        return fake, qmp

    yield connect
    for one in opened:
        one.close()


def test_commands_pass_events_by(control):
    fake, qmp = control({"return": {"status": "running"}})
    assert qmp.execute("set-action", reboot="reset") == {"status": "running"}
    assert fake.commands[1] == {"execute": "set-action", "arguments": {"reboot": "reset"}}


def test_a_refusal_and_an_end_are_errors(control):
    _, qmp = control({"error": {"class": "GenericError", "desc": "no such thing"}})
    with pytest.raises(GuestError, match="QEMU refuses x: no such thing"):
        qmp.execute("x")
    with pytest.raises(GuestError, match="QEMU does not answer y"):
        qmp.execute("y")


BOOT = "".join(f"[    {n}.0] line {n}\n" for n in range(50))
OOPS = """\
[   60.0] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   60.1] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
[   60.2] RIP: 0010:mlx5_cmd_exec+0x10/0x20 [mlx5_core]
[   60.3] Kernel panic - not syncing: Fatal exception
[   60.4] Kernel Offset: disabled
"""


def test_the_last_lines_are_enough_while_nothing_is_wrong():
    lines = console.tail(BOOT).splitlines()
    assert (len(lines), lines[-1]) == (20, "[    49.0] line 49")
    assert console.panic_reason(BOOT) is None


def test_a_kernel_that_ends_tells_from_the_beginning():
    assert console.panic_reason(BOOT + OOPS) == "Fatal exception"
    assert console.tail(BOOT + OOPS) == OOPS.strip()


@pytest.mark.parametrize("script", ["init.sh", "begin.sh"])
def test_a_boot_that_the_guests_init_gives_up(script):
    path = Path(emu.guests.__file__).parent / "inside" / script
    (said,) = re.findall(r'echo "(mlx5emu: .*)\$\*"', path.read_text())
    text = f"{BOOT}{said}no disk\n[    60.1] reboot: Power down\n"
    assert console.why_off(text, "it powered off") == "the guest failed to boot: no disk"
    assert console.why_off(BOOT, "it powered off") == "it powered off"


def test_no_log_is_an_empty_one(tmp_path):
    assert console.read(tmp_path / "none") == ""
    (tmp_path / "log").write_bytes(b"a\r\nb\xff\r\n")
    assert console.read(tmp_path / "log") == "a\nb\ufffd\n"
