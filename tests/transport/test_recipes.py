"""Recipes for the tools that people have: what stands in examples/tools is what they need."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from emu.control import Client
from emu.lab.machine import qemu
from emu.lab.machine.qmp import Qmp

TOOLS = Path(__file__).parents[2] / "examples" / "tools"
UNIT = TOOLS / "mlx5emu@.service"


def serve(*words):
    """A server that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "emu", "serve", *words], stdout=subprocess.PIPE, text=True
    )
    while (line := process.stdout.readline()) and line.strip() != "ready":
        pass
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    process.stdout.close()
    return process.wait(30)


def test_the_units_command_serves(tmp_path):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    service = unit["Service"]
    assert service["RuntimeDirectory"] == "mlx5emu-%i"
    (tmp_path / "mlx5emu-connectx6").mkdir()
    line = service["ExecStart"].replace("%i", "connectx6").replace("%t", str(tmp_path))
    program, command, *words = line.split()
    assert (program, command) == ("%h/mlx5emu/.venv/bin/mlx5emu", "serve")
    process = serve(*words)
    try:
        with Client(tmp_path / "mlx5emu-connectx6" / "control") as control:
            assert control.status()["functions"][0]["model"] == "connectx6"
        assert (tmp_path / "mlx5emu-connectx6" / "function").is_socket()
    finally:
        status = end(process)
    assert status == 0


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text().replace("%h/mlx5emu/.venv/bin/mlx5emu", "/bin/true")
    copy = tmp_path / "mlx5emu@connectx6.service"
    copy.write_text(text)
    environ = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert copy.name not in done.stderr


def test_qemu_takes_what_libvirt_gives_it(tmp_path):
    program = qemu.find()
    if program is None:
        pytest.skip("no QEMU with vfio-user is installed or in the cache")
    root = ElementTree.parse(TOOLS / "libvirt.xml").getroot()
    backing = root.find("memoryBacking")
    assert backing.find("source").get("type") == "memfd"
    assert backing.find("access").get("mode") == "shared"
    name = "{http://libvirt.org/schemas/domain/qemu/1.0}"
    values = [one.get("value") for one in root.iter(f"{name}arg")]
    path = tmp_path / "function"
    words = [one.replace("/run/mlx5emu/function", str(path)) for one in values]
    assert str(path) in json.loads(words[-1])["socket"]["path"]
    server = serve("--device", "connectx6", "--socket", str(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "qmp"))
        listener.listen()
        listener.settimeout(60)
        command = [
            *program.command, "-S", "-nodefaults", "-no-user-config", "-display", "none",
            "-object", "memory-backend-memfd,id=ram,size=64M,share=on", "-m", "64M",
            "-machine", "q35,memory-backend=ram", "-accel", "tcg",
            "-qmp", f"unix:{tmp_path}/qmp,server=off", *words,
        ]  # fmt: skip
        process = subprocess.Popen(command)
        try:
            control = Qmp(listener.accept()[0])
            device = {"path": "/machine/peripheral/mlx5"}
            found = [
                control.execute("qom-get", **device, property=name) for name in ("type", "realized")
            ]
            control.close()
        finally:
            process.kill()
            process.wait()
            end(server)
    assert found == ["vfio-user-pci", True]
