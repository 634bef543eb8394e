"""Processes of a fabric inside this process: members that share one event loop."""

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
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_port_state

MODEL = MODELS["connectx6"]
SECONDS = 20
STEP_NS = 5_000_000
FoundT = TypeVar("FoundT")


class SkippingLoop(Loop):
    """Event loop whose time passes by itself, and skips ahead when a test calls :meth:`skip`."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_ns = 0

    def now_ns(self) -> int:
        """Return the current time, with all that was skipped."""
        return super().now_ns() + self._skipped_ns

    def skip(self, ns: int) -> None:
        """Advance the time by ``ns`` nanoseconds."""
        self._skipped_ns += ns


class Fabric:
    """Members in the order in which they joined; the first one is the hub."""

    def __init__(self, name: str) -> None:
        """Use ``name``, the fabric's address: ``unix:PATH`` or ``tcp:HOST:PORT``."""
        self.name = name
        self.loop = SkippingLoop()
        self.members: list[FabricProcess] = []
        self.cleanup = contextlib.ExitStack()

    def join(self, *identities: protocol.Identity) -> FabricProcess:
        """Add a member process with a function for each identity, whose driver is loaded.

        Return the member. Without identities, the member has one function, and the hub assigns its
        numbers. Raises FabricError when the fabric refuses, and adds nothing then.
        """
        member = FabricProcess(self, identities or (protocol.Identity(),))
        self.members.append(member)
        return member

    def step(self) -> None:
        """Run every function once, then one round of the loop.

        Wait up to 5 ms if no function had work.
        """
        self.loop.budget.begin()
        busy = [lifecycle.run(node.hca) for member in self.members for node in member.nodes]
        self.loop.step(0 if any(busy) else STEP_NS)

    def until(self, condition: Callable[[], FoundT]) -> FoundT:
        """Step until the condition's value is true; return that value.

        Raises AssertionError after 20 s.
        """
        end = time.monotonic() + SECONDS
        while not (result := condition()):
            assert time.monotonic() < end, "the condition does not become true"
            self.step()
        return result

    def settle(self) -> None:
        """Run 10 steps, enough for members to become idle; does not check that they are."""
        for _ in range(10):
            self.step()

    def completions(self, qp: QueuePair, count: int = 1) -> list[Found]:
        """Step until a queue pair's CQ has ``count`` more completions, and return them.

        The list may be longer: it has all that the last poll found. Raises AssertionError after 20
        s.
        """
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
    """Function of a member; ``port_eqn`` is the EQ of its port's events."""

    def __init__(self, function: Function, driver: Driver) -> None:
        super().__init__(function, driver)
        self.port_eqn = driver.create_eq(events=[EventType.PORT_CHANGE])


class FabricProcess:
    """Process: its membership of the fabric, and a node for each of its functions."""

    def __init__(self, lab: Fabric, requested: tuple[protocol.Identity, ...]) -> None:
        """Join the fabric. Raises FabricError."""
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
        """Return a node for the identity: a function on the fabric, with a loaded driver."""
        memory, irqs = Memory(), IrqList()
        options = HcaOptions(guid=identity.guid, lid=identity.lid)
        wire, clock = self.wire, self.lab.loop
        function = Function(MODEL, options, TABLE, memory, irqs, clock, wire)
        return FabricNode(function, Driver(FunctionBar(function), memory, irqs).probe())

    @property
    def node(self) -> FabricNode:
        """Node of the first function."""
        return self.nodes[0]

    def leave(self) -> None:
        """End the process: close its sockets and no longer run its functions.

        Do nothing the second time.
        """
        if self in self.lab.members:
            self.lab.members.remove(self)
            self.wire.close()


def port_events(node: FabricNode) -> list[int]:
    """Return the sub-types of port 1's PORT_CHANGE events since the last call.

    Empty if none arrived.
    """
    return [
        entry.sub_type
        for entry in node.driver.eqs[node.port_eqn].drain()
        if eqe_port_state.view(entry.data).port.port_num == 1
    ]
