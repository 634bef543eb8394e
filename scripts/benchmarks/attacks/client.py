"""Hostile clients of the control socket and of vfio-user."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from attacks.guest import Guest
from attacks.watch import Watch, pattern
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.model import Model
from emu.device.models.virtual_functions import virtual_function_of, with_virtual_functions
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.transport.vfio_client import VfioClient
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.control.protocol import MAX_REQUEST
from emu.server.control.server import MAX_CLIENTS, MAX_PER_SECOND
from emu.server.service import views
from emu.server.service.devicespec import parse
from emu.server.service.endpoints import ServedDevice
from emu.server.service.server import Server
from emu.server.vfio.kinds import DEFAULT_KIND, make_transport
from emu.server.vfio.loop import Loop
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import (
    HEADER,
    MAX_DMA_MAPS,
    PAGE_SIZE,
    REGION_ACCESS,
    RegionIndex,
    VfioCommand,
)
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op

ROUNDS = 200
KEYS = 20_000
BACKING = 1 << 20
VFS = 15
VF_OBJECTS = 1000
VF_RESETS = 100
SRIOV = 0x180
COMMAND, DEVICE_CONTROL, CONTROL, NUM_VFS = 0x04, 0x68, SRIOV + 0x08, SRIOV + 0x10
FLR, ENABLE, MEMORY, MASTER = 0x8000, 0x9, 2, 4


class Control:
    """Server, and a client of its control socket."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._folder = folder = watch.sockets()
        self.server = Server(
            [ServedDevice(folder / "vfio", parse("", 0))], control=folder / "control"
        )
        watch.knows(self.server.functions[0])
        self._sock = self.client()
        self.steps(10)

    def client(self) -> socket.socket:
        """Connect to the control socket."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self._folder / "control"))
        sock.setblocking(False)
        return sock

    def steps(self, count: int) -> None:
        """Run ``count`` rounds of the loop."""
        for _ in range(count):
            self._watch.round(lambda: self.server.loop.step(0))
            try:
                self._sock.recv(1 << 20)
            except BlockingIOError:
                continue

    def say(self, data: bytes) -> None:
        """Send a line, and let the server answer or drop the client."""
        deadline = time.monotonic() + 60
        while data and time.monotonic() < deadline:
            try:
                data = data[self._sock.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                break
            self.steps(1)
        self.steps(ROUNDS)


@pattern("JSON as deep as a line is long")
def deep_json(watch: Watch) -> Iterator[None]:
    control = Control(watch)
    yield
    for depth in (900, 976, 990, 5000, MAX_REQUEST - 2):
        control.say(b"[" * depth + b"]" * min(depth, MAX_REQUEST - 2 - depth) + b"\n")
        control = Control(watch)


@pattern("JSON of a hundred thousand keys, and of one large number")
def wide_json(watch: Watch) -> Iterator[None]:
    control = Control(watch)
    yield
    params = {str(number): 0 for number in range(15_000)}
    control.say(json.dumps({"method": "status", "params": params}).encode() + b"\n")
    control.say(b'{"method":"status","params":{"x":' + b"1" * 200_000 + b"}}\n")


@pattern("plans of brackets, blanks and very deep keys")
def plans(watch: Watch) -> Iterator[None]:
    texts = (
        "x = " + "[" * 900,
        "x = [" + " " * 2000 + "[",
        "x = [" + "[ ] , " * 20_000,
        ".".join("a" for _ in range(20_000)) + " = 1",
        "[" + ".".join("a" for _ in range(20_000)) + "]",
        "x = " + "{a=" * 900,
        "\n".join(f"[[rule]]\nname = 'r{number}'\npoint = 'cmd'\naction = 'fail'"
                  for number in range(3000)),
    )  # fmt: skip
    lines = [
        json.dumps({"method": "fault.load", "params": {"plan": text}}).encode() + b"\n"
        for text in texts
    ]
    controls = [Control(watch) for _ in lines]
    yield
    for control, line in zip(controls, lines):
        control.say(line)


@pattern("the objects of a function with 20,000 keys, all of them")
def objects(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    for _ in range(KEYS):
        guest.driver.must(Op.CREATE_PSV, pd=guest.node.pdn, num_psv=4)
        guest.driver.create_mkey(guest.node.pdn)
    yield
    parts = views.objects(guest.function, None, KEYS)
    while watch.round(lambda: next(parts, None)) is not None:
        pass
    watch.round(lambda: json.dumps(views.status(guest.function, 0)))


@pattern(f"{MAX_CLIENTS - 1} clients, each with as many requests for the status as there may be")
def requests(watch: Watch) -> Iterator[None]:
    control = Control(watch)
    clients = []
    for _ in range(MAX_CLIENTS - 1):
        clients.append(control.client())
        control.steps(3)
    yield
    for client in clients:
        client.send(b'{"method":"status"}\n' * (MAX_PER_SECOND - 1))
    control.steps(ROUNDS)


@pattern("DMA_MAP of as many ranges as there may be, and one DMA_UNMAP of all")
def dma_maps(watch: Watch) -> Iterator[None]:
    memory = DmaMap(trust_unsealed=True)
    fd = os.memfd_create("ram", os.MFD_CLOEXEC)
    os.ftruncate(fd, BACKING)
    yield
    for number in range(MAX_DMA_MAPS):
        at = (MAX_DMA_MAPS - number) * 2 * PAGE_SIZE
        watch.round(partial(memory.map, at, PAGE_SIZE, 0, READ | WRITE, fd))
    watch.round(lambda: memory.unmap(0, 1 << 40))


class _Served:
    """A function behind a socket, with its own memory."""

    def __init__(
        self, loop: Loop, model: Model, path: Path, number: int, pf: Function | None = None
    ) -> None:
        self._memory, self._irqs = Memory(), IrqList()
        options = HcaOptions(guid=0x1000 + number)
        self.function = Function(
            model, options, TABLE, self._memory, self._irqs, loop, None, pf=pf
        )  # fmt: skip
        transport = make_transport(DEFAULT_KIND, path)
        transport.listen(self.function)
        loop.add_transport(transport)

    def probe(self) -> Driver:
        """Return its driver after a probe."""
        driver = Driver(FunctionBar(self.function), self._memory, self._irqs)
        return driver.probe(is_vf=self.function.model.identity.is_vf)


class _Machine:
    """A client of a physical function, whose virtual functions have drivers and objects."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._loop = Loop()
        model = with_virtual_functions(LINKS["connectx6dx"][PortType.ETH], VFS)
        folder = watch.sockets()
        pf = _Served(self._loop, model, folder / "0", 0)
        self._client = VfioClient(folder / "0", self._loop.step)
        self._client.negotiate()
        manager = pf.probe()
        vfs = [
            _Served(
                self._loop, virtual_function_of(model), folder / str(number), number, pf.function
            )
            for number in range(1, VFS + 1)
        ]
        for offset, value in ((NUM_VFS, VFS), (CONTROL, ENABLE)):
            pf.function.config_write(offset, value.to_bytes(2, "little"))
        for number, vf in enumerate(vfs, 1):
            manager.must(Op.ENABLE_HCA, function_id=number)
            driver = vf.probe()
            for _ in range(VF_OBJECTS):
                driver.must(Op.ALLOC_PD)
        for one in (pf, *vfs):
            watch.knows(one.function)
        self._functions = [one.function for one in (pf, *vfs)]

    def send(self, *writes: tuple[int, int]) -> None:
        """Send writes to configuration space VF_RESETS times at once; run until all are done."""
        messages = []
        for number, (offset, value) in enumerate(writes * VF_RESETS):
            payload = REGION_ACCESS.pack(offset, RegionIndex.CONFIG, 2) + value.to_bytes(
                2, "little"
            )
            size = HEADER.size + len(payload)
            messages.append(HEADER.pack(number, VfioCommand.REGION_WRITE, size, 0, 0) + payload)
        self._client.send_raw(b"".join(messages))
        left = len(messages) * (HEADER.size + REGION_ACCESS.size)
        self._client.sock.setblocking(False)
        while left:
            self._watch.round(self._loop.step)
            with suppress(BlockingIOError):
                left -= len(self._client.sock.recv(1 << 20))
        self._watch.settle(*self._functions)


_ATTACKS: dict[str, tuple[tuple[int, int], ...]] = {
    "function-level resets of their physical function": (
        (DEVICE_CONTROL, FLR), (NUM_VFS, VFS), (CONTROL, ENABLE),
    ),
    "VF Enable, cleared and set": ((CONTROL, 0), (CONTROL, ENABLE)),
    "Bus Master Enable of their physical function, cleared and set": (
        (COMMAND, MEMORY), (COMMAND, MEMORY | MASTER),
    ),
}  # fmt: skip


def _attack(title: str, writes: tuple[tuple[int, int], ...]) -> None:
    @pattern(f"{VFS} virtual functions with {VF_OBJECTS} objects each: {title}, {VF_RESETS} times")
    def attack(watch: Watch) -> Iterator[None]:
        machine = _Machine(watch)
        yield
        machine.send(*writes)


for _title, _writes in _ATTACKS.items():
    _attack(_title, _writes)
