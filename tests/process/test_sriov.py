"""Virtual functions in a QEMU that runs no guest: the server places their BARs by itself.

The test plays the firmware and Linux (drivers/pci/iov.c: sriov_init, sriov_enable).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.guest.stopped_qemu import ROOT_PORT, StoppedQemu, option

from emu.cli.shared.control import function_name
from emu.host.process_identity import module_command
from emu.server.control.client import Client
from emu.server.service.endpoints import vf_socket

VFS = 9
VF_BYTES, PF_BYTES = 1 << 20, 32 << 20
SEABIOS, OVMF = 0xB000_0000, 0xE000_0000
PF_BAR, VF_BAR, OTHER_VF_BAR = 0x1_0000_0000, 0x1_0400_0000, 0x1_4000_0000
END = 0x1_FFFF_FFFF
COMMAND, BAR0, SRIOV, ARI = 0x04, 0x10, 0x180, 0x150
CONTROL, NUM, VF_BAR0 = SRIOV + 8, SRIOV + 0x10, SRIOV + 0x24
DEVICE_CONTROL, FLR = 0x68, 0x8000
MEMORY, MASTER = 2, 4
EXPRESS, LINK_ACTIVE = 0x10, 1 << 13
DEADLINE = 60
FIRMWARE_ABSENT = 0xFFFF_FFFF


@contextlib.contextmanager
def served(folder, device):
    """A server of one device; the path of its socket, and its process id."""
    log = folder / "server.log"
    words = ["serve", "-v", "--socket", folder / "f", "--device", device]
    words += ["--control", folder / "control"]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [*module_command("emu"), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        ) as process,
    ):
        try:
            while process.stdout.readline() not in ("ready\n", ""):
                pass
            yield folder / "f", process.pid
        finally:
            process.terminate()


def devices(socket, vfs):
    """The functions as the guide has them: VFs after their PF, by routing id."""
    words = []
    for number, path in enumerate([socket, *(vf_socket(socket, at) for at in range(vfs))]):
        first = {"multifunction": True} if not number & 7 else {}
        words += option(
            driver="vfio-user-pci", bus="port1", addr=f"{number >> 3:#x}.{number & 7}",
            socket={"type": "unix", "path": str(path)}, **first,
        )  # fmt: skip
    return words


class Machine(StoppedQemu):
    """The machine and its PF on bus ``bus``."""

    bus = 0
    control = server = None

    def begin(self, ecam, bus, vf_bar=VF_BAR):
        """The work of the firmware."""
        self.map_ecam(ecam)
        self.bus = bus
        self.open_port(bus, PF_BAR, END)
        self.put(0, BAR0, 4, PF_BAR & 0xFFFF_FFFF)
        self.put(0, BAR0 + 4, 4, PF_BAR >> 32)
        self.put_vf_bar(vf_bar)
        self.put(0, COMMAND, 2, MEMORY)

    def get(self, devfn, offset, length):
        return self.config(self.bus, devfn, offset, length)

    def put(self, devfn, offset, length, value):
        self.set_config(self.bus, devfn, offset, length, value)

    def put_vf_bar(self, address):
        self.put(0, VF_BAR0, 4, address & 0xFFFF_FFFF)
        self.put(0, VF_BAR0 + 4, 4, address >> 32)

    def enable(self):
        self.put(0, COMMAND, 2, MEMORY | MASTER)
        self.put(0, NUM, 2, VFS)
        self.put(0, CONTROL, 2, 9)

    def disable(self):
        self.put(0, CONTROL, 2, 0)

    def bars(self):
        return [self.get(devfn, BAR0, 8) & ~0xF for devfn in range(1, VFS + 1)]

    def wait_for_bars(self, first):
        """Wait until the VFs' BARs begin there."""
        wanted = [first + number * VF_BYTES for number in range(VFS)]
        deadline = time.monotonic() + DEADLINE
        while self.bars() != wanted:
            assert time.monotonic() < deadline, [*map(hex, self.bars())]
        return wanted

    def wait_for(self, first):
        """Wait for the BARs; return each VF's firmware version, which is there."""
        words = [self.memory.read(bar, 4) for bar in self.wait_for_bars(first)]
        assert FIRMWARE_ABSENT not in words
        return words

    def chain(self):
        """Ids of the extended capabilities, in order."""
        at, found = 0x100, []
        while at:
            head = self.get(0, at, 4)
            found.append(head & 0xFFFF)
            at = head >> 20
        return found


@pytest.fixture(scope="module")
def machine(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sriov")
    with served(folder, f"connectx6dx,vfs={VFS}") as (socket, pid):
        made = Machine(program, folder, devices(socket, VFS))
        made.control, made.server = folder / "control", pid
        yield made
        made.close()


@pytest.fixture(autouse=True)
def begin(machine):
    """Each test finds the machine after a reset, and the PF on bus 5."""
    machine.reset()
    machine.begin(SEABIOS, 5)


def test_qemu_passes_the_capabilities_on(machine):
    assert machine.chain() == [0x0001, 0x000E, 0x0010, 0x0019, 0x000D]
    assert {machine.get(devfn, 0, 4) for devfn in range(1, VFS + 1)} == {0xFFFF_FFFF}


def test_bars_follow_vf_enable(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    machine.disable()
    assert machine.memory.read(VF_BAR, 4) == FIRMWARE_ABSENT
    machine.put(0, CONTROL, 2, 9)
    machine.wait_for(VF_BAR)


def test_bars_follow_the_vf_bar(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    machine.disable()
    machine.put_vf_bar(OTHER_VF_BAR)
    machine.enable()
    machine.wait_for(OTHER_VF_BAR)


def test_sizing_of_the_vf_bar_places_nothing(machine):
    machine.put(0, COMMAND, 2, MEMORY | MASTER)
    machine.wait_for_bars(VF_BAR)
    machine.put(0, VF_BAR0, 4, 0xFFFF_FFFF)
    assert machine.get(0, VF_BAR0, 4) == 0x1_0000_0000 - VF_BYTES | 0xC
    machine.put(0, VF_BAR0, 4, VF_BAR & 0xFFFF_FFFF)
    machine.put(0, VF_BAR0 + 4, 4, 0xFFFF_FFFF)
    machine.put(0, VF_BAR0 + 4, 4, VF_BAR >> 32)
    assert machine.get(1, BAR0, 8) & ~0xF == VF_BAR


def test_an_flr_of_the_pf_ends_them(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    machine.put(0, DEVICE_CONTROL, 2, FLR)
    assert machine.get(0, CONTROL, 2) == 0
    assert machine.memory.read(VF_BAR, 4) == FIRMWARE_ABSENT
    machine.begin(SEABIOS, 5)
    machine.enable()
    machine.wait_for(VF_BAR)


def test_an_flr_of_a_vf_leaves_its_bar(machine):
    machine.enable()
    words = machine.wait_for(VF_BAR)
    machine.put(2, DEVICE_CONTROL, 2, FLR)
    assert machine.memory.read(VF_BAR + VF_BYTES, 4) == words[1]
    assert machine.memory.read(VF_BAR, 4) == words[0]


def test_a_secondary_bus_reset_ends_them(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    bridge = machine.config(0, ROOT_PORT, 0x3E, 2)
    machine.set_config(0, ROOT_PORT, 0x3E, 2, bridge | 0x40)
    machine.set_config(0, ROOT_PORT, 0x3E, 2, bridge)
    assert machine.get(0, CONTROL, 2) == 0
    machine.begin(SEABIOS, 5)
    machine.enable()
    machine.wait_for(VF_BAR)


@pytest.mark.parametrize(("ecam", "bus"), [(SEABIOS, 7), (OVMF, 3), (OVMF, 255), (SEABIOS, 1)])
def test_wherever_the_firmware_puts_the_bus(machine, ecam, bus):
    machine.reset()
    machine.begin(ecam, bus)
    machine.enable()
    machine.wait_for(VF_BAR)


def test_at_once_with_a_new_place_each_time(machine):
    for number in range(10):
        machine.disable()
        machine.put(0, COMMAND, 2, MEMORY)
        address = VF_BAR + (number + 1 << 28)
        machine.put_vf_bar(address)
        machine.enable()
        machine.wait_for(address)


def test_a_bus_that_changes_its_number(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    machine.disable()
    machine.begin(SEABIOS, 9, OTHER_VF_BAR)
    machine.enable()
    machine.wait_for(OTHER_VF_BAR)


def test_a_root_port_with_native_hot_plug_keeps_its_link(program, tmp_path):
    """Linux waits for Data Link Layer Link Active after a secondary bus reset."""
    native = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
    with served(tmp_path, "connectx6dx,vfs=2") as (socket, _):
        machine = Machine(program, tmp_path, devices(socket, 2), *native)
        try:
            machine.begin(SEABIOS, 5)
            at = machine.config(0, ROOT_PORT, 0x34, 1)
            while machine.config(0, ROOT_PORT, at, 1) != EXPRESS:
                at = machine.config(0, ROOT_PORT, at + 1, 1)
            bridge = machine.config(0, ROOT_PORT, 0x3E, 2)
            for control in (bridge | 0x40, bridge):
                machine.set_config(0, ROOT_PORT, 0x3E, 2, control)
                assert machine.config(0, ROOT_PORT, at + 0x12, 2) & LINK_ACTIVE
        finally:
            machine.close()


def held(pid):
    """Open descriptors and resident MiB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE") >> 20


def test_a_hundred_cycles_leave_nothing_in_the_server(machine):
    seen = []
    for _ in range(6):
        for _ in range(20):
            machine.enable()
            machine.wait_for(VF_BAR)
            machine.disable()
        seen.append(held(machine.server))
    (fds, mib), *rest = seen
    assert {one for one, _ in rest} == {fds}
    assert rest[-1][1] - mib < 10, seen


def test_status_and_objects_name_them(machine):
    machine.enable()
    machine.wait_for(VF_BAR)
    with Client(machine.control) as control:
        functions = control.status()["functions"]
        objects = control.objects()["functions"]
    assert [one.get("vf") for one in functions] == [
        None,
        *(
            {"function": 0, "number": number, "name": f"0.vf{number}", "enabled": True}
            for number in range(VFS)
        ),
    ]
    assert functions[0]["vfs"] == {"total": VFS, "enabled": VFS}
    assert [one.get("vf") for one in objects] == [one.get("vf") for one in functions]
    assert function_name(functions[0]) == "0"
    assert function_name(functions[2]) == "0.vf1"
