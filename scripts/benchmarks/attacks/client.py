"""Hostile clients of the control socket and of vfio-user."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from functools import partial

from attacks.guest import Guest
from attacks.watch import Watch, pattern
from emu.server.control.protocol import MAX_REQUEST
from emu.server.control.server import MAX_CLIENTS, MAX_PER_SECOND
from emu.server.service import views
from emu.server.service.devicespec import parse
from emu.server.service.endpoints import ServedDevice
from emu.server.service.server import Server
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import MAX_DMA_MAPS, PAGE_SIZE
from layouts.enums import Op

ROUNDS = 200
KEYS = 20_000
BACKING = 1 << 20


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
