"""Random steering commands, right and wrong, against a plain model: what is taken, where frames go.

After each command every packet of a pool is routed by the device and by the model.
"""

import logging
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from helpers.device.snapshot import snapshot
from helpers.models.flow_commands import Group, Model, Rule, Sheet
from helpers.models.flow_model import fields_of
from helpers.random.examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from emu.device.engine.eth.steering.domain import decide
from emu.device.engine.eth.steering.route import route
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.port.eth.headers import parse
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    group_fields,
    miss_fields,
    table_fields,
    to_table,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rq,
    create_rqt,
    modify_rqt,
)
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.fte import FlowAction, SetFte

pytestmark = pytest.mark.hostile

MAX_RULES = 7
ETHERNET = LINKS["connectx6"][PortType.ETH]
NIC_RECEIVE = "flow_table_properties_nic_receive"
SMALL = replace(
    ETHERNET,
    flow_table={NIC_RECEIVE: ETHERNET.flow_table[NIC_RECEIVE] | {"log_max_flow": 3}},
)

IPV6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}
POOL = [
    EthPacket(**kind, protocol=protocol, chain=protocol, tags=tags)
    for kind, protocol, tags in product(({}, IPV6), (TCP, UDP), ((), ((0x8100, 1),)))
]
POOL += [
    EthPacket(tags=((0x88A8, 1),)),
    EthPacket(fragment=0x2000),
    EthPacket(ports=b"\0\1\0\2"),
]
FRAMES = [packet.frame() for packet in POOL]
HEADERS = [parse(frame) for frame in FRAMES]
FIELDS = [fields_of(packet) for packet in POOL]

MASKS = st.sampled_from(
    (
        {},
        {"ip_protocol": 0xFF},
        {"ethertype": 0xFFFF, "frag": 1},
        {"ip_version": 0xF, "tcp_dport": 0xFFFF},
        {"cvlan_tag": 1},
        {"cvlan_tag": 1, "svlan_tag": 1, "first_vid": 0xFFF},
        {"udp_dport": 1, "src_ipv4_src_ipv6": 3},
    )
)
NUMBERS = st.integers(0, 5)
INDICES = st.integers(0, 8)
ONTO = st.lists(
    st.tuples(st.just("tir"), st.integers(1, 4)) | st.tuples(st.just("table"), NUMBERS), max_size=3
)
COUNTERS = st.lists(st.integers(1, 2), max_size=2)
VALUES = st.sampled_from([FIELDS[0], FIELDS[0], *FIELDS]).map(dict)
SELDOM = st.sampled_from((False, False, False, True))


class Steered(RuleBasedStateMachine):
    """One function with an Ethernet port; every command's fate is foretold."""

    def __init__(self):
        super().__init__()
        memory, clock, irqs = Memory(4 << 20), HandClock(), IrqList()
        wire = LocalFabric(clock)
        self.function = Function(SMALL, HcaOptions(guid=1), TABLE, memory, irqs, clock, wire)
        self.hca = self.function.hca
        self.driver = Driver(FunctionBar(self.function), memory, irqs).probe()
        self.hca = self.function.hca
        self.flows = Flows(self.driver)
        self.model = Model(MAX_RULES)
        self.counted = Counter()
        self._make_queues()

    def _make_queues(self):
        """Two direct TIRs, and an indirect one that takes the first RQ of its table."""
        td = alloc_td(self.driver)
        self.rqns = [create_rq(self.driver) for _ in range(3)]
        self.rqtn = create_rqt(self.driver, self.rqns[2:], limit=4)
        for tirn in (
            create_direct_tir(self.driver, td, self.rqns[0]),
            create_direct_tir(self.driver, td, self.rqns[1]),
            create_indirect_tir(self.driver, td, self.rqtn),
        ):
            self.model.tirs[tirn] = self.rqns[len(self.model.tirs)]
        for _ in range(2):
            self.model.counters[self.flows.counter()] = 0

    def attempt(self, taken, op, **fields):
        """Run a command; whether it was taken has to be what the model says."""
        before = None if taken else snapshot(self.hca)
        answer = self.driver.command(op, **fields)
        assert answer.delivery == 0
        assert (answer.status == Status.OK) == taken, (op.name, answer.status, fields)
        if not taken:
            assert answer.syndrome
            assert snapshot(self.hca) == before
        return answer

    @initialize(masks=st.lists(MASKS, min_size=3, max_size=3), data=st.data())
    def two_tables(self, masks, data):
        """So that packets get somewhere from the start."""
        for level, mask in zip((1, 3), masks):
            self.create_table(level, None)
            table = len(self.model.tables)
            self.create_group(table, 0, 3, mask)
            onto = [("tir", 1 + data.draw(st.integers(0, 2)))]
            self.create_rule(table, 1, table, data.draw(VALUES), False, onto, 0, [])
        self.create_group(1, 4, 6, masks[2])
        self.create_rule(1, 5, 3, data.draw(VALUES), False, [("table", 2)], 0, [])
        self.set_root(1, False)

    @rule(level=st.integers(0, 5), miss=st.none() | NUMBERS)
    def create_table(self, level, miss):
        taken = self.model.may_create_table(level, miss)
        answer = self.attempt(
            taken, Op.CREATE_FLOW_TABLE, **table_fields(level, log_size=3, miss=miss)
        )
        if taken:
            self.model.tables[answer.table_id] = Sheet(level, 8, miss)

    @rule(table=NUMBERS, miss=st.none() | NUMBERS)
    def set_miss(self, table, miss):
        found = self.model.tables.get(table)
        taken = found is not None and self.model.may_create_table(found.level, miss)
        self.attempt(
            taken, Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=1,
            flow_table_context=miss_fields(miss),
        )  # fmt: skip
        if taken:
            found.miss = miss

    @rule(table=NUMBERS)
    def destroy_table(self, table):
        taken = self.model.may_destroy_table(table)
        self.attempt(taken, Op.DESTROY_FLOW_TABLE, table_id=table)
        if taken:
            del self.model.tables[table]
            self.model.root = None if self.model.root == table else self.model.root

    @rule(table=NUMBERS, disconnect=SELDOM)
    def set_root(self, table, disconnect):
        taken = disconnect or table in self.model.tables
        self.attempt(taken, Op.SET_FLOW_TABLE_ROOT, op_mod=int(disconnect), table_id=table)
        if taken:
            self.model.root = None if disconnect else table

    @rule(table=NUMBERS, first=INDICES, last=INDICES, masks=MASKS)
    def create_group(self, table, first, last, masks):
        # The groups have numbers of their own: as many as there may be entries.
        taken = self.model.may_create_group(table, first, last)
        taken &= len(self.model.groups) < MAX_RULES
        answer = self.attempt(
            taken, Op.CREATE_FLOW_GROUP, **group_fields(table, first, last, **masks)
        )
        if taken:
            self.model.groups[answer.group_id] = Group(table, first, last, masks)

    @rule(table=NUMBERS, group=NUMBERS)
    def destroy_group(self, table, group):
        taken = self.model.may_destroy_group(table, group)
        self.attempt(taken, Op.DESTROY_FLOW_GROUP, table_id=table, group_id=group)
        if taken:
            del self.model.groups[group]

    def _fields(self, table, index, group, values, drop, onto, tag, counters):
        places = [to_tir(number) if kind == "tir" else to_table(number) for kind, number in onto]
        action = FlowAction.DROP if drop else FlowAction.FWD_DEST
        wanted = {name: values[name] for name in values if name not in ("ttl_hoplimit",)}
        return entry_fields(
            table, index, group, *places, action=action, tag=tag, counters=counters, **wanted
        )

    @rule(
        table=NUMBERS, index=INDICES, group=NUMBERS, values=VALUES, drop=SELDOM, onto=ONTO,
        tag=st.integers(0, 3), counters=COUNTERS,
    )  # fmt: skip
    def create_rule(self, table, index, group, values, drop, onto, tag, counters):
        taken = self.model.may_create_rule(table, index, group, drop, onto, counters)
        fields = self._fields(table, index, group, values, drop, onto, tag, counters)
        self.attempt(taken, Op.SET_FLOW_TABLE_ENTRY, **fields)
        if taken:
            made = Rule(group, values, drop, onto, tag, counters)
            self.model.tables[table].rules[index] = made

    @rule(data=st.data(), drop=SELDOM, onto=ONTO, tag=st.integers(0, 3), counters=COUNTERS)
    def create_fitting_rule(self, data, drop, onto, tag, counters):
        """At a free index of a group that there is, leading up."""
        if not self.model.groups:
            return
        group = data.draw(st.sampled_from(sorted(self.model.groups)))
        found = self.model.groups[group]
        table = self.model.tables[found.table]
        index = data.draw(st.integers(found.first, found.last))
        onto = [
            (kind, number)
            for kind, number in onto
            if (kind == "tir" and number in self.model.tirs)
            or (kind == "table" and self.model.leads_up(table.level, number))
        ]
        self.create_rule(
            found.table, index, group, data.draw(VALUES), drop, [] if drop else onto, tag, counters
        )

    @rule(
        data=st.data(), mask=st.integers(0, 15), drop=SELDOM, onto=ONTO, tag=st.integers(0, 3),
        counters=COUNTERS,
    )  # fmt: skip
    def modify_rule(self, data, mask, drop, onto, tag, counters):
        """Whatever the mask names, in a rule that there is."""
        rules = [
            (number, index)
            for number, table in self.model.tables.items()
            for index in sorted(table.rules)
        ]
        if not rules:
            return
        number, index = data.draw(st.sampled_from(rules))
        table = self.model.tables[number]
        old = table.rules[index]
        counts = bool(counters) if mask & SetFte.ACTION else bool(old.counters)
        new = Rule(
            old.group,
            old.values,
            drop if mask & SetFte.ACTION else old.drop,
            onto if mask & SetFte.DESTINATION_LIST else old.onto,
            tag if mask & SetFte.FLOW_TAG else old.tag,
            counters if mask & SetFte.FLOW_COUNTERS else old.counters,
        )
        taken = self.model.may_do(table.level, new.drop, new.onto, new.counters)
        taken &= counts == bool(new.counters)
        fields = self._fields(number, index, old.group, {}, drop, onto, tag, counters)
        self.attempt(taken, Op.SET_FLOW_TABLE_ENTRY, op_mod=1, modify_enable_mask=mask, **fields)
        if taken:
            table.rules[index] = new

    @rule(table=NUMBERS, index=INDICES)
    def delete_rule(self, table, index):
        taken = table in self.model.tables and index in self.model.tables[table].rules
        self.attempt(taken, Op.DELETE_FLOW_TABLE_ENTRY, table_id=table, flow_index=index)
        if taken:
            del self.model.tables[table].rules[index]

    @rule(number=st.integers(1, 3))
    def free_a_counter(self, number):
        """And make another one, which gets the number back last."""
        known = number in self.model.counters
        taken = known and not self.model.uses_of_counter(number)
        self.attempt(taken, Op.DEALLOC_FLOW_COUNTER, flow_counter_id=number)
        if taken:
            del self.model.counters[number], self.counted[number]

    @rule(tirn=st.integers(1, 3))
    def destroy_used_tir(self, tirn):
        if any(("tir", tirn) in rule.onto for rule in self.model.rules()):
            self.attempt(False, Op.DESTROY_TIR, tirn=tirn)

    @rule(first=st.integers(0, 2))
    def modify_table_of_queues(self, first):
        modify_rqt(self.driver, self.rqtn, self.rqns[first:] + self.rqns[:first])
        self.model.tirs[3] = self.rqns[first]

    @invariant()
    def frames_go_where_the_model_says(self):
        domain = self.hca.flow_domains[0]
        foretold = self.model.outcomes(FIELDS)
        for frame, headers, (deliveries, counted, missed) in zip(FRAMES, HEADERS, foretold):
            found = sorted(
                (delivery.rq.handle, delivery.flow_tag)
                for delivery in route(self.hca, headers, len(frame))
            )
            assert found == deliveries
            self.counted.update(counted)
            assert decide(domain, headers, 0, packets=0).missed == missed
        for number in self.model.counters:
            assert self.flows.query_counter(number)[0] == self.counted[number]

    @invariant()
    def references_and_costs_add_up(self):
        refs = Counter()
        for table in self.hca.tables:
            for item in table:
                refs.update(item.holds())
        for table in self.hca.tables:
            for item in table:
                assert item.refs == refs.pop(item, 0), item
        assert not refs
        for table in (self.hca.flow_tables, self.hca.flow_groups, self.hca.flow_entries):
            held = sum(item.host_bytes for item in table)
            assert self.hca.ledger.accounts.get(table.kind, 0) == held
        assert self.hca.health.internal_errors == 0


@pytest.mark.timeout(600)  # a failure takes minutes to be made small
def test_any_steering(caplog):
    caplog.set_level(logging.ERROR)
    limits = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
    run_state_machine_as_test(Steered, settings=limits)
