"""Processes of a fabric, all of them in this one: each a member on the loop that they share."""

from __future__ import annotations

import contextlib
import socket
import time

from emu.device.engine import lifecycle
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.server.net.fabric import protocol
from emu.server.net.fabric.protocol import HEADER, FrameKind
from emu.server.net.ib.sockets import SocketFabric
from emu.server.vfio.loop import Loop
from firmware_cmds import TABLE
from helpers.driver import Driver, FunctionBar
from helpers.verbs import Node
from helpers.world import IrqList, Memory
from layouts.enums import EventType
from layouts.eqe import eqe_port_state

MODEL = MODELS["connectx6"]
SECONDS = 20
STEP_NS = 5_000_000


class SkippingLoop(Loop):
    """Time passes by itself, and at once when a test says so."""

    def __init__(self):
        super().__init__()
        self._skipped_ns = 0

    def now_ns(self):
        return super().now_ns() + self._skipped_ns

    def skip(self, ns):
        self._skipped_ns += ns


class Fabric:
    """Members by the order of their coming; the first one to come is the hub."""

    def __init__(self, name):
        self.name = name
        self.loop = SkippingLoop()
        self.members = []
        self.cleanup = contextlib.ExitStack()

    def join(self, *wanted):
        """A process with a function for each of these identities, any numbers when none is given.

        Raises FabricError.
        """
        member = Member(self, wanted or (protocol.Identity(),))
        self.members.append(member)
        return member

    def step(self):
        """Run every function, then wait a little for sockets and timers if none had work."""
        self.loop.round.begin()
        busy = [lifecycle.run(node.hca) for member in self.members for node in member.nodes]
        self.loop.step(0 if any(busy) else STEP_NS)

    def until(self, condition):
        """Step until it holds; what it gives."""
        end = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < end, "it does not come to pass"
            self.step()
        return found

    def settle(self):
        """Until nobody has heard anything for a while."""
        for _ in range(10):
            self.step()

    def completions(self, qp, count=1):
        """The next ``count`` completions of a queue pair's CQ."""
        found = []

        def enough():
            found.extend(qp.cq.drain())
            return len(found) >= count

        self.until(enough)
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in [*self.members]:
            member.leave()
        self.cleanup.close()
        self.loop.close()


class Member:
    """A process: its place on the fabric, and a node for each of its functions."""

    def __init__(self, lab, wanted):
        self.lab = lab
        self.wire = SocketFabric(lab.name, lab.loop, [*wanted])
        self.nodes = []
        try:
            identities = self.wire.join()
        except BaseException:
            self.wire.close()
            raise
        self.nodes += [self._node(identity) for identity in identities]

    def _node(self, identity):
        memory, irqs = Memory(), IrqList()
        options = HcaOptions(guid=identity.guid, lid=identity.lid)
        wire, clock = self.wire, self.lab.loop
        function = Function(MODEL, options, TABLE, memory, irqs, clock, wire)
        node = Node(function, Driver(FunctionBar(function), memory, irqs).probe())
        node.port_eqn = node.driver.create_eq(events=[EventType.PORT_CHANGE])
        return node

    @property
    def node(self):
        return self.nodes[0]

    def leave(self):
        """The process ends: its sockets are closed, and nothing of it runs any more."""
        if self in self.lab.members:
            self.lab.members.remove(self)
            self.wire.close()


def port_events(node):
    """What the driver has been told about its port since the last look."""
    return [
        entry.sub_type
        for entry in node.driver.eqs[node.port_eqn].drain()
        if eqe_port_state.view(entry.data).port.port_num == 1
    ]


class Stranger:
    """A socket that says to a hub, or as a hub, whatever a test wants."""

    def __init__(self, lab, sock):
        self.lab, self.sock = lab, sock
        lab.cleanup.callback(sock.close)
        sock.setblocking(False)
        self._buffer = b""

    @classmethod
    def connected(cls, lab):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(lab.name.removeprefix("unix:"))
        lab.step()
        return cls(lab, sock)

    @classmethod
    def member(cls, lab, *wanted):
        """One that has been welcomed; ``identities`` are its numbers."""
        stranger = cls.connected(lab)
        wanted = wanted or (protocol.Identity(),)
        stranger.say(FrameKind.HELLO, protocol.hello(wanted))
        kind, body = stranger.hear()
        assert kind is FrameKind.WELCOME
        stranger.identities = protocol.read_welcome(memoryview(body), wanted)
        return stranger

    def say(self, kind, body):
        self.send(protocol.frame(kind, body))

    def send(self, data):
        """All of it, while the others go on; False when the other side has closed."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return False
            self.lab.step()
        return True

    def hear(self):
        """The next frame: its kind and its body; None at the end."""
        return self.lab.until(self._frame) or None

    def _frame(self):
        while len(self._buffer) < HEADER.size or len(self._buffer) < self._size():
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._buffer += data
        size = self._size()
        _, code = HEADER.unpack_from(self._buffer)
        body, self._buffer = self._buffer[HEADER.size : size], self._buffer[size:]
        return FrameKind(code), body

    def _size(self):
        return HEADER.size + HEADER.unpack_from(self._buffer)[0]

    def is_dropped(self):
        """Whether the other side ends the connection; what it says before is not listened to."""

        def gone():
            try:
                return not self.sock.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True

        return self.lab.until(gone)

    def close(self):
        self.sock.close()
