"""A driver that does anything at all: random commands, doorbells, BAR and configuration accesses.

Whatever it does, the device answers without an internal error, a refused command changes nothing,
what was destroyed is gone, references add up, and every ring entry belongs to exactly one side.
"""

import logging
from collections import Counter
from dataclasses import replace

import pytest
from helpers.device.observed import look
from helpers.device.refusals import missing
from helpers.device.snapshot import snapshot
from helpers.random.examples import examples
from helpers.random.random_commands import CREATES, DESTROYS, LIMITS, commands
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from emu.device.engine.events import eq as eq_engine
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.pci.capabilities import D0
from emu.device.state.hca import HcaOptions, HcaState
from emu.driver.command.bar import FunctionBar, enable
from emu.driver.command.driver import Driver
from emu.driver.ethernet.rings import rq_fields, sq_fields
from emu.driver.verbs.parts import Parts
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.rings.eqe import EQE_BYTES

pytestmark = pytest.mark.hostile

MEMORY = 4 << 20
DOORBELLS = st.sampled_from([0x20, 0x40, 0x48, 0x800, 0x900, 0xA00, 0x44])
FRONT = st.one_of(
    st.integers(0, 0x20), st.integers(0xFF0, 0x1020), st.integers(0x1FF0, 0x3010),
    st.integers(0x8000, 0xC000), st.sampled_from([0x1FFFFFC, 0x1FFFFFF, 0x2000000]),
)  # fmt: skip
POWER_CONTROL = 0x44
CONFIG = st.one_of(st.integers(0, 0x13F), st.integers(0, 0x1010))


def check_ring(ring, stride, empty=None, since=0):
    """From the consumer on, the driver owns what was produced and the device all the rest.

    The last byte of an entry says whose it is: its low bit, unless the rest of it is ``empty``.
    Entries before ``since`` were produced in another buffer.
    """
    size = 1 << ring.log_size
    last_bytes = ring.buffer.read(0, stride * size)[stride - 1 :: stride]
    for index in range(max(ring.ci, since), ring.ci + size):
        last = last_bytes[index % size]
        driver_owns = last & 1 == index >> ring.log_size & 1 and last >> 4 != empty
        assert driver_owns == (index < ring.pi), f"{ring!r} entry {index}"


class AnyDriver(RuleBasedStateMachine):
    """One function with small tables, and a driver without a plan."""

    model = MODELS["connectx6"]

    def __init__(self):
        super().__init__()
        self.memory, self.clock, self.irqs = Memory(MEMORY), HandClock(), IrqList()
        wire = LocalFabric(self.clock)
        self.function = Function(
            replace(self.model, general={**self.model.general, **LIMITS}),
            HcaOptions(guid=1),
            TABLE,
            self.memory,
            self.irqs,
            self.clock,
            wire,
        )
        self.probe()

    @property
    def hca(self):
        return self.function.hca

    def probe(self):
        """A new driver, as after a reset."""
        self.hca_of_driver = self.hca
        self.resized = {}
        self.unswept = set()
        self.driver = Driver(FunctionBar(self.function), self.memory, self.irqs).probe()
        parts = Parts(self.driver)
        self.driver.must(Op.ALLOC_XRCD)
        self.driver.must(Op.ALLOC_Q_COUNTER)
        self.driver.must(Op.CREATE_SQ, **sq_fields(self.driver, parts.pdn, parts.cqn)[0])
        self.driver.must(Op.CREATE_RQ, **rq_fields(self.driver, parts.pdn, parts.cqn)[0])
        parts.make(QpState.RTS)
        parts.make(QpState.INIT, st=QpType.UD)
        self.driver.create_rmp(parts.pdn)
        self.driver.create_mkey(parts.pdn)

    @rule(data=st.data())
    def one_command(self, data):
        self.command(data)

    def command(self, data):
        op, fields = data.draw(commands(self.driver), label="command")
        before = snapshot(self.hca)
        answer = self.driver.command(op, **fields)
        assert answer.delivery == 0
        if answer.status != Status.OK:
            assert answer.syndrome
            assert snapshot(self.hca) == before
        elif op is Op.MODIFY_CQ and fields["op_mod"]:
            # A driver with a plan would copy what it has not read (hw/cq.c: copy_resize_cqes).
            resized = self.hca.cqs.get(fields["cqn"])
            self.resized[resized] = resized.pi
        elif op in CREATES:
            self.check_created(op, fields, answer, before)
        elif op in DESTROYS:
            kind, field = DESTROYS[op]
            assert getattr(self.hca, kind.table).get(fields[field]) is None
            assert self.driver.command(op, **fields).status == missing(op)

    def check_created(self, op, fields, answer, before):
        kind, field = CREATES[op]
        table, handle = getattr(self.hca, kind.table), getattr(answer, field)
        if op is Op.CREATE_CQ and fields["cq_umem_valid"]:
            # Nobody has marked the entries there as empty.
            self.unswept.add(table.get(handle))
        live_before, *_ = before[table.kind]
        assert handle not in live_before
        assert table.get(handle) is not None
        assert table.first <= handle < table.numbers.limit

    @rule(page=st.integers(7, 11), offset=DOORBELLS, number=st.integers(0, 5), data=st.data())
    def doorbell(self, page, offset, number, data):
        """Rings at something that may exist, saying something that may be true."""
        words = {
            0x20: st.integers(0, 0x0300_00FF).map(lambda ci: ci << 32 | number),
            0x40: st.integers(0, 20).map(lambda ci: number << 24 | ci),
        }
        default = st.just((0x40 + number) << 8)
        value = data.draw(words.get(offset & ~8, default), label="value")
        length = 4 if offset in (0x40, 0x44, 0x48) else 8
        self.function.bar_write(0, page << 12 | offset, value.to_bytes(length, "big"))
        self.driver.bar.settle()

    @rule(number=st.integers(0, 4), data=st.data())
    def post(self, number, data):
        """Writes something into a queue pair's rings and moves the counters of its record."""
        qp = self.hca.qps.get(0x40 + number)
        if qp is None or not qp.buffer.length:
            return
        at = data.draw(st.integers(0, max(qp.buffer.length - 64, 0) // 16), label="at") * 16
        opcode = data.draw(
            st.sampled_from([0, 1, 8, 9, 10, 16, 17, 18, 24, 37, 99]), label="opcode"
        )
        ctrl = bytes((0, 0, 0, opcode)) + (qp.handle << 8 | 2).to_bytes(4, "big") + b"\0\0\0\x08"
        wqe = (ctrl + data.draw(st.binary(max_size=52), label="rest"))[: qp.buffer.length - at]
        qp.buffer.write(at, wqe)
        counters = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)), label="counters")
        if not qp.ctx.dbr_umem_valid:  # then its address is an offset
            self.memory.write(qp.ctx.dbr_addr, b"".join(c.to_bytes(4, "big") for c in counters))
        self.function.bar_write(0, self.driver.uar << 12 | 0x800, ctrl[:8])
        self.driver.bar.settle()

    @rule(offset=FRONT, data=st.binary(min_size=1, max_size=16))
    def access_bar(self, offset, data):
        self.function.bar_write(0, offset, data)
        read = self.function.bar_read(0, offset, len(data))
        assert len(read) == len(data)
        self.driver.bar.settle()
        self.driver.attach()
        if self.hca.state is HcaState.DISABLED:
            assert not any(self.hca.tables)
            self.probe()

    @rule(data=st.data(), count=st.integers(2, 8))
    def many_commands(self, data, count):
        for _ in range(count):
            self.command(data)

    @rule(offset=CONFIG, data=st.binary(min_size=1, max_size=4))
    def access_config(self, offset, data):
        self.function.config_write(offset, data)
        assert len(self.function.config_read(offset, len(data))) == len(data)
        self.driver.bar.settle()
        self.function.config_write(POWER_CONTROL, D0.to_bytes(2, "little"))
        enable(self.function)
        if self.hca is not self.hca_of_driver:
            assert not any(self.hca.tables)
            self.probe()

    @rule(event=st.sampled_from(EventType), count=st.integers(1, 3))
    def event(self, event, count):
        for _ in range(count):
            eq_engine.raise_event(self.hca.events, event, bytes(28))

    @rule()
    def look(self):
        """The control socket's views tell of whatever there is."""
        look(self.function)

    @rule(ms=st.integers(1, 300))
    def wait(self, ms):
        self.clock.advance(ms * 1_000_000)
        self.driver.bar.settle()

    @invariant()
    def no_internal_error(self):
        assert self.hca.health.internal_errors == 0

    @invariant()
    def ledger_adds_up(self):
        """It says what the live objects hold, and nothing else."""
        held = {table.kind: sum(item.host_bytes for item in table) for table in self.hca.tables}
        held["firmware page"] = 128 * len(self.hca.fwpages)
        held["multicast"] = 512 * sum(map(len, self.hca.mcgs.values()))
        held["page fault"] = 1024 * len(self.hca.page_faults)
        assert self.hca.ledger.accounts == {kind: size for kind, size in held.items() if size}
        assert self.hca.ledger.used == sum(held.values())

    @invariant()
    def references_add_up(self):
        refs = Counter()
        for table in self.hca.tables:
            for item in table:
                refs.update(item.holds())
        for table in self.hca.tables:
            for item in table:
                assert item.refs == refs.pop(item, 0), item
        assert not refs, "something dead is still referred to"

    @invariant()
    def rings_have_one_owner_for_each_entry(self):
        for eq in self.hca.eqs:
            check_ring(eq, EQE_BYTES)
        for cq in set(self.hca.cqs) - self.unswept:
            check_ring(cq, cq.stride, CqeOpcode.INVALID, self.resized.get(cq, 0))


class AnyEthernetDriver(AnyDriver):
    """The same with an Ethernet port."""

    model = MODELS["connectx6dx"]


@pytest.mark.timeout(600)  # a failure takes minutes to be made small
@pytest.mark.parametrize("machine", [AnyDriver, AnyEthernetDriver])
def test_any_driver(caplog, machine):
    caplog.set_level(logging.ERROR)
    limits = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
    run_state_machine_as_test(machine, settings=limits)
