"""A QEMU that runs no guest: a test plays its firmware and kernel, by the debugger's stub.

Debian's QEMU has no qtest. The stub accesses physical memory while the processor is stopped, and
so the machine's memory-mapped configuration space (ECAM) and the BARs.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess

from emu.guests.guest.process import ChildListener
from emu.guests.machine.qmp import Qmp

TIMEOUT = 60
ECAM_AT = 0x60
"""PCIEXBAR of q35's host bridge."""
ROOT_PORT = 0x10
"""Device and function of the root port on bus 0."""


class Debugger:
    """QEMU's gdb stub, in physical memory."""

    def __init__(self, path):
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(TIMEOUT)
        self._sock.connect(str(path))
        assert self._ask("Qqemu.PhyMemMode:1") == "OK"

    def close(self):
        self._sock.close()

    def _ask(self, packet):
        data = packet.encode()
        self._sock.sendall(b"$%s#%02x" % (data, sum(data) & 0xFF))
        reply = b""
        while True:
            reply += self._sock.recv(4096)
            start = reply.find(b"$")
            end = reply.find(b"#", start)
            if 0 <= start < end and len(reply) >= end + 3:
                self._sock.sendall(b"+")
                return reply[start + 1 : end].decode()

    def read(self, address, length):
        data = self._ask(f"m{address:x},{length:x}")
        assert not data.startswith("E"), f"nothing at {address:#x}"
        return int.from_bytes(bytes.fromhex(data), "little")

    def write(self, address, length, value):
        data = value.to_bytes(length, "little").hex()
        assert self._ask(f"M{address:x},{length:x}:{data}") == "OK"


class StoppedQemu:
    """A q35 machine with one root port, and the devices behind it."""

    def __init__(self, program, folder, devices, *more):
        self._open = contextlib.ExitStack()
        listener = self._open.enter_context(ChildListener(folder / "qmp"))
        words = [
            *program.command, "-machine", "q35,memory-backend=ram", "-accel", "tcg", "-S",
            "-m", "64M", "-object", "memory-backend-memfd,id=ram,size=64M,share=on",
            "-nodefaults", "-display", "none", "-qmp", f"unix:{folder}/qmp,server=off",
            "-gdb", f"unix:{folder}/gdb,server=on,wait=off", *more,
            "-device", "pcie-root-port,id=port1,chassis=1,slot=1,addr=2.0", *devices,
        ]  # fmt: skip
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self._open.callback(self._end)
        self.qmp = Qmp(listener.accept(self.process, TIMEOUT))
        self._open.callback(self.qmp.close)
        self.memory = Debugger(folder / "gdb")
        self._open.callback(self.memory.close)
        self.ecam = 0

    def _end(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self._open.close()

    def _outb(self, port, width, value):
        line = f"o /{width} {port:#x} {value:#x}"
        self.qmp.execute("human-monitor-command", **{"command-line": line})

    def map_ecam(self, base):
        """As firmware does: by the old ports of configuration space."""
        for offset, value in ((ECAM_AT + 4, 0), (ECAM_AT, base | 1)):
            self._outb(0xCF8, "w", 0x8000_0000 | offset)
            self._outb(0xCFC, "w", value)
        self.ecam = base

    def reset(self):
        """A reset of the whole machine."""
        self.qmp.execute("system_reset")
        self.qmp.wait_for("RESET")

    def address(self, bus, devfn, offset):
        return self.ecam + (bus << 20) + (devfn << 12) + offset

    def config(self, bus, devfn, offset, length):
        return self.memory.read(self.address(bus, devfn, offset), length)

    def set_config(self, bus, devfn, offset, length, value):
        self.memory.write(self.address(bus, devfn, offset), length, value)

    def open_port(self, bus, first, last):
        """Give the root port a bus, and a prefetchable window of addresses."""
        self.set_config(0, ROOT_PORT, 0x18, 4, bus << 16 | bus << 8)
        self.set_config(0, ROOT_PORT, 0x20, 4, 0x0000_FFF0)
        low = first >> 16 & 0xFFF0 | (last >> 16 & 0xFFF0) << 16 | 0x1_0001
        self.set_config(0, ROOT_PORT, 0x24, 4, low)
        self.set_config(0, ROOT_PORT, 0x28, 4, first >> 32)
        self.set_config(0, ROOT_PORT, 0x2C, 4, last >> 32)
        self.set_config(0, ROOT_PORT, 4, 2, 7)


def option(**device):
    """The words of a device."""
    return ["-device", json.dumps(device)]
