"""The fuzzer's rules on the device: each kind of its rules, with observers and without.

The driver here is not held to anything, as it reads what the rules have made of the answers. The
device is: no exception in it or in an observer of it.
"""

import contextlib
from random import Random

import pytest
from helpers.random.examples import examples

from emu.device.faults.injector import Injector
from emu.device.faults.parser import from_table
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.instruments.fuzz.grammar import targets
from emu.instruments.fuzz.rules import Maker
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE

pytestmark = pytest.mark.hostile

KINDS = len(Maker([], Random(0))._kinds)
TARGETS = targets(TABLE)
RULES = 8
MOMENT_NS = 50_000_000


class Bench:
    """A function with rules from its power-on, and a driver that does the same each time."""

    def __init__(self, plan):
        self.clock, memory, irqs = HandClock(), Memory(4 << 20), IrqList()
        wire = LocalFabric(self.clock)
        self.function = Function(
            MODELS["connectx6"], HcaOptions(guid=1), TABLE, memory, irqs, self.clock, wire
        )
        self.driver = Driver(FunctionBar(self.function), memory, irqs)
        self.injector = Injector(self.function)
        self.function.use_faults(self.injector)
        self.injector.start(plan)

    def run(self):
        """Do all that does not fail by what the driver reads."""
        for step in self._steps():
            with contextlib.suppress(Exception):
                step()
            self.clock.advance(MOMENT_NS)
        met = {state.rule.name: state.met for state in self.injector.states}
        self.injector.clear()
        self.clock.advance(MOMENT_NS)
        return met

    def _steps(self):
        nodes, pairs = [], []
        yield self.driver.probe
        yield lambda: nodes.append(Node(self.function, self.driver))
        yield lambda: [self.driver.alloc_pd() for _ in range(5)]
        yield lambda: pairs.append((nodes[0].queue_pair(), nodes[0].queue_pair()))
        yield lambda: connect(*pairs[0])
        for _ in range(4):
            yield lambda: pairs[0][0].cq.arm()
            yield lambda: pairs[0][1].post_recv()
            yield lambda: pairs[0][0].send()
            yield lambda: nodes[0].settle()
            yield lambda: [qp.cq.drain() for qp in pairs[0]]
        yield lambda: pairs[0][0].destroy()
        yield self.driver.bar.settle


@pytest.fixture(scope="module")
def census():
    """Return rules for all points, none of which fires, and how many events each has met."""
    plan = Maker(TARGETS, Random(0)).census()
    return [rule.to_table() for rule in plan.rule], Bench(plan).run()


@pytest.mark.parametrize("kind", range(KINDS))
def test_rules_of_each_kind(kind, census, caplog):
    for seed in range(examples(10)):
        maker = Maker(TARGETS, Random(seed))
        maker.workload = "probe"
        maker.add_census("probe", *census)
        made = [rule for _ in range(RULES) if (rule := maker._kinds[kind][1]()) is not None]
        named = [{**rule, "name": f"rule-{at}", "times": 20} for at, rule in enumerate(made, 1)]
        bench = Bench(from_table({"seed": seed, "rule": named}))
        met = bench.run()
        assert any(met.values()), seed
        assert bench.function.hca.health.internal_errors == 0, seed
        assert not any(record.exc_info for record in caplog.records), seed
