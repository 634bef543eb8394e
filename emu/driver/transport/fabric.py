"""Processes of a fabric, all of them in this one: each a member on the loop that they share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Self, TypeVar

from emu.device.engine import lifecycle
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.completions import Found
from emu.driver.verbs.node import Node
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.fabric import protocol
from emu.server.net.ib.sockets import SocketFabric
from emu.server.vfio.loop import Loop
from firmware_cmds import TABLE
from layouts.enums import EventType
from layouts.rings.eqe import eqe_port_state

MODEL = MODELS["connectx6"]
SECONDS = 20
STEP_NS = 5_000_000
FoundT = TypeVar("FoundT")


class SkippingLoop(Loop):
    """Time passes by itself, and at once when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_ns = 0

    def now_ns(self) -> int:
        """The time of now, with all that was skipped."""
        return super().now_ns() + self._skipped_ns

    def skip(self, ns: int) -> None:
        """Let so many nanoseconds have passed."""
        self._skipped_ns += ns


class Fabric:
    """Members by the order of their coming; the first one to come is the hub."""

    def __init__(self, name: str) -> None:
        """``name`` is the fabric's address, ``unix:PATH`` or ``tcp:HOST:PORT``."""
        self.name = name
        self.loop = SkippingLoop()
        self.members: list[FabricProcess] = []
        self.cleanup = contextlib.ExitStack()

    def join(self, *identities: protocol.Identity) -> FabricProcess:
        """A process with a function for each of these identities, any numbers when none is given.

        Raises FabricError.
        """
        member = FabricProcess(self, identities or (protocol.Identity(),))
        self.members.append(member)
        return member

    def step(self) -> None:
        """Run every function, then wait a little for sockets and timers if none had work."""
        self.loop.budget.begin()
        busy = [lifecycle.run(node.hca) for member in self.members for node in member.nodes]
        self.loop.step(0 if any(busy) else STEP_NS)

    def until(self, condition: Callable[[], FoundT]) -> FoundT:
        """Step until it holds; what it gives. Raises AssertionError when that takes too long."""
        end = time.monotonic() + SECONDS
        while not (result := condition()):
            assert time.monotonic() < end, "it does not come to pass"
            self.step()
        return result

    def settle(self) -> None:
        """Until nobody has heard anything for a while."""
        for _ in range(10):
            self.step()

    def completions(self, qp: QueuePair, count: int = 1) -> list[Found]:
        """The next ``count`` completions of a queue pair's CQ."""
        completions: list[Found] = []

        def enough() -> bool:
            completions.extend(qp.cq.drain())
            return len(completions) >= count

        self.until(enough)
        return completions

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in [*self.members]:
            member.leave()
        self.cleanup.close()
        self.loop.close()


class FabricNode(Node):
    """A function of a member; ``port_eqn`` is the EQ of what happens to its port."""

    def __init__(self, function: Function, driver: Driver) -> None:
        super().__init__(function, driver)
        self.port_eqn = driver.create_eq(events=[EventType.PORT_CHANGE])


class FabricProcess:
    """A process: its place on the fabric, and a node for each of its functions."""

    def __init__(self, lab: Fabric, requested: tuple[protocol.Identity, ...]) -> None:
        """Raises FabricError."""
        self.lab = lab
        self.wire = SocketFabric(lab.name, lab.loop, [*requested])
        self.nodes: list[FabricNode] = []
        try:
            identities = self.wire.join()
        except BaseException:
            self.wire.close()
            raise
        self.nodes += [self._node(identity) for identity in identities]

    def _node(self, identity: protocol.Identity) -> FabricNode:
        memory, irqs = Memory(), IrqList()
        options = HcaOptions(guid=identity.guid, lid=identity.lid)
        wire, clock = self.wire, self.lab.loop
        function = Function(MODEL, options, TABLE, memory, irqs, clock, wire)
        return FabricNode(function, Driver(FunctionBar(function), memory, irqs).probe())

    @property
    def node(self) -> FabricNode:
        """The first function's."""
        return self.nodes[0]

    def leave(self) -> None:
        """The process ends: its sockets are closed, and nothing of it runs any more."""
        if self in self.lab.members:
            self.lab.members.remove(self)
            self.wire.close()


def port_events(node: FabricNode) -> list[int]:
    """What the driver has been told about its port since the last look."""
    return [
        entry.sub_type
        for entry in node.driver.eqs[node.port_eqn].drain()
        if eqe_port_state.view(entry.data).port.port_num == 1
    ]
