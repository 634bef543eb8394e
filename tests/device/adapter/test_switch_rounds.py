"""A packet's way through tables is cut into rounds, whatever the tables say."""

from itertools import pairwise

import pytest
from helpers.device.switches import UPLINK, Switch

from emu.device.objects.eth.flow.domain import DECISIONS
from emu.device.objects.eth.flow.table import FlowEntry
from emu.device.port.eth.headers import parse
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import (
    LOG_BYTES_PER_STEP,
    LOG_STEERED_PER_STEP,
    STEPS_PER_FRAME,
)
from emu.driver.ethernet.flow_fields import (
    add_to_field,
    entry_fields,
    match,
    reformat_fields,
    to_table,
    to_vport,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, FlowDestination, FlowSource
from layouts.enums.general_object import GeneralObject
from layouts.enums.modify_header import ModifyField
from layouts.enums.packet_reformat import ReformatType
from layouts.enums.wqe import Opcode
from layouts.steering.fte import dest_format_struct
from layouts.steering.sampler import sampler_obj

pytestmark = pytest.mark.hostile

OUTER = 1
TABLES, CHANGES, PACKETS, MSS = 15, 32, 300, 100
ONE_PACKET = 1024
"""Steps of a packet's changes, at most; the round ends behind it."""
GROUPS, FIELDS = 100, 8
MAX_TABLES = 256
"""How many tables one packet visits before it is lost."""
FIELDS_PER_DESTINATION = 4
"""What a destination is charged at least, in fields read of a packet."""
VXLAN = bytes.fromhex(
    "020000000001 020000000002 0800 4500 0000 0000 0000 4011 0000 0a000001 0a000002"
    "0000 12b5 0000 0000 08000000 00424200"
)
MARK = EthPacket(ports=bytes.fromhex("0007 0007")).frame()


class Busy(Switch):
    """Its rounds are run one by one, and what each has cost is looked at."""

    def __init__(self, clock):
        super().__init__(clock)
        self.clock, self.function = clock, self.manager.function
        self.longest = self.rounds = 0

    def tables(self, table_type):
        """The commands for tables of a type; entries may lead anywhere."""
        flows = Flows(self.driver, table_type)

        def entry(table, index, group, *to, **options):
            fields = entry_fields(table, index, group, *to, **options)
            self.driver.must(
                Op.SET_FLOW_TABLE_ENTRY, table_type=table_type, ignore_flow_level=1, **fields
            )

        flows.entry = entry
        return flows

    def changing(self, flows, *last, **options):
        """The first of tables that change much; the last one's entry puts packets into a tunnel."""
        context = flows.context(*[add_to_field(ModifyField.OUT_IP_TTL, 1)] * CHANGES)
        tables = [flows.table(0, log_size=0, reformat_en=1) for _ in range(TABLES + 1)]
        for table, following in pairwise(tables):
            flows.entry(table, 0, flows.group(table, 0, 0), to_table(following), modify=context)
        given = reformat_fields(ReformatType.L2_TO_VXLAN, VXLAN)
        number = self.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **given).packet_reformat_id
        flows.entry(
            tables[-1], 0, flows.group(tables[-1], 0, 0), *last,
            also=FlowAction.PACKET_REFORMAT, beside={"packet_reformat_id": number}, **options,
        )  # fmt: skip
        return tables[0]

    def sampled(self, flows, ratios, *to):
        """The first of tables that each lead to a sampler; nothing comes of samples."""
        table, nobody = flows.table(0, log_size=0), flows.table(0, log_size=0)
        flows.entry(nobody, 0, flows.group(nobody, 0, 0), action=FlowAction.DROP)
        flows.entry(table, 0, flows.group(table, 0, 0), *to)
        for ratio in ratios:
            given = sampler_obj.new(
                table_type=FlowTableType.FDB, sample_ratio=ratio, sample_table_id=nobody, level=9,
                default_table_id=table, ignore_flow_level=1,
            )  # fmt: skip
            number = self.driver.must(
                Op.CREATE_GENERAL_OBJECT, op_mod=GeneralObject.SAMPLER, extra=bytes(given)
            ).obj_id
            table, kind = flows.table(0, log_size=0), FlowDestination.FLOW_SAMPLER
            way = dest_format_struct.new(destination_type=kind, destination_id=number)
            flows.entry(table, 0, flows.group(table, 0, 0), bytes(way))
        return table

    def comparing(self, flows, to):
        """A table whose groups compare each packet's fields in vain, and lead on at its end."""
        masks = {
            "dmac_47_16": 0xFFFFFFFF, "dmac_15_0": 0xFFFF, "smac_47_16": 0xFFFFFFFF,
            "smac_15_0": 0xFFFF, "ethertype": 0xFFFF, "ip_version": 0xF, "frag": 1, "ip_dscp": 0x3F,
        }  # fmt: skip
        table = flows.table(0, log_size=7)
        for index in range(GROUPS):
            group = flows.group(table, index, index, **masks)
            flows.entry(table, index, group, to_table(to), ip_dscp=1)
        flows.entry(table, GROUPS, flows.group(table, GROUPS, GROUPS), to_table(to))
        return table

    def send_large(self, payload):
        header = EthPacket(payload=b"").frame()[:54]
        region = self.manager.node.region(len(payload))
        region.write(payload)
        self.sq.send(region.sge(), opcode=Opcode.LSO, mss=MSS, headers=header, ring=False)

    def settle(self):
        self.sq.ring_doorbell()
        for _ in range(10_000):
            self.clock.budget.begin()
            is_busy = self.function.poll()
            self.longest = max(self.longest, self.clock.budget.steps)
            self.rounds += 1
            if not is_busy and not self.clock.budget.is_waiting:
                return [frame.data for frame in self.wire.sent()]
        raise AssertionError("it never ends")

    @property
    def cost(self):
        """Return the cost of packets in the tables so far."""
        return self.manager.hca.eswitch.fdb.steps


@pytest.fixture
def switch(clock):
    return Busy(clock)


def text(number):
    return bytes((number + at // MSS) & 0xFF for at in range(MSS * PACKETS))


def inside(frames):
    """The payloads of packets in a tunnel, one after the other."""
    return b"".join(frame[len(VXLAN) + 54 :] for frame in frames if not frame.endswith(MARK[34:]))


@pytest.mark.parametrize("table_type", [FlowTableType.NIC_TX, FlowTableType.FDB])
def test_packets_that_are_changed_much_take_many_rounds_and_keep_their_order(switch, table_type):
    flows = switch.tables(table_type)
    if table_type is FlowTableType.NIC_TX:
        switch.entry()
        flows.set_root(switch.changing(flows, action=FlowAction.ALLOW))
    else:
        flows.set_root(switch.changing(flows, to_vport(UPLINK)))
    switch.send_large(text(1))
    switch.sq.send(MARK, ring=False)
    switch.send_large(text(2))
    frames = switch.settle()
    assert len(frames) == 2 * PACKETS + 1
    assert inside(frames) == text(1) + text(2)
    assert frames[PACKETS][len(VXLAN) + 34 :] == MARK[34:]
    assert all(parse(frame).end == len(frame) for frame in frames)
    assert switch.longest <= POLL_BUDGET + ONE_PACKET
    assert switch.rounds > 2 * PACKETS * TABLES * CHANGES // 2 // POLL_BUDGET
    assert not any(kind in switch.manager.hca.ledger.accounts for kind in ("egress", "crossing"))


@pytest.mark.parametrize("table_type", [FlowTableType.NIC_TX, FlowTableType.FDB])
def test_what_is_on_its_way_ends_with_a_teardown(switch, table_type):
    flows, hca = switch.tables(table_type), switch.manager.hca
    switch.entry()
    is_egress = table_type is FlowTableType.NIC_TX
    last = () if is_egress else (to_vport(UPLINK),)
    options = {"action": FlowAction.ALLOW} if is_egress else {}
    flows.set_root(switch.changing(flows, *last, **options))
    switch.send_large(text(1))
    switch.sq.ring_doorbell()
    switch.clock.budget.begin()
    switch.function.poll()
    line = hca.backlogs.egress if is_egress else hca.backlogs.esw
    assert len(line) == 1
    switch.driver.must(Op.TEARDOWN_HCA)
    assert not len(line)
    assert not any(kind in hca.ledger.accounts for kind in ("egress", "crossing"))


def test_samplers_ask_for_one_way_through_the_tables(switch):
    """Not for one more with each answer."""
    flows = switch.tables(FlowTableType.FDB)
    flows.set_root(switch.comparing(flows, switch.sampled(flows, [2] * 7, to_vport(UPLINK))))
    before = switch.cost
    switch.sq.send(MARK, ring=False)
    assert switch.settle() == [MARK]
    once = GROUPS * (FIELDS + 1) >> LOG_STEERED_PER_STEP
    assert once <= switch.cost - before <= once + 16


def test_decisions_between_two_answers_are_kept(switch):
    flows = switch.tables(FlowTableType.FDB)
    flows.set_root(switch.comparing(flows, switch.sampled(flows, [9] * 3, to_vport(UPLINK))))
    switch.sq.send(MARK, ring=False)
    switch.settle()
    before = switch.cost
    switch.sq.send(MARK, ring=False)
    assert switch.settle() == [MARK]
    assert switch.cost == before


def test_samplers_behind_many_groups(switch):
    """Answers that differ from packet to packet: a way through the tables for most of them."""
    flows = switch.tables(FlowTableType.FDB)
    ratios = (2, 3, 5, 7, 11, 13)
    flows.set_root(switch.comparing(flows, switch.sampled(flows, ratios, to_vport(UPLINK))))
    switch.send_large(text(1))
    frames = switch.settle()
    assert len(frames) == PACKETS
    assert switch.longest <= POLL_BUDGET + ONE_PACKET


def test_a_sampler_then_many_vports(switch):
    flows = switch.tables(FlowTableType.FDB)
    flows.set_root(switch.sampled(flows, [3], *[to_vport(UPLINK)] * 60))
    switch.send_large(text(1))
    assert len(switch.settle()) == PACKETS * 60
    assert switch.longest <= POLL_BUDGET + ONE_PACKET
    assert switch.rounds > PACKETS * 60 // POLL_BUDGET


def test_kept_decisions_are_in_the_ledger(switch):
    flows, ledger = switch.tables(FlowTableType.FDB), switch.manager.hca.ledger
    switch.entry()
    for number in range(20):
        switch.sq.send(MARK[:6] + number.to_bytes(6, "big") + MARK[12:], ring=False)
    assert len(switch.settle()) == 20
    assert ledger.accounts[DECISIONS] >= 20 * 512
    flows.table(0)
    assert ledger.accounts[DECISIONS]
    switch.entry(table=switch.second)
    assert DECISIONS not in ledger.accounts, "any change of the tables drops them"
    switch.sq.send(MARK)
    switch.settle()
    assert ledger.accounts[DECISIONS]
    switch.driver.must(Op.TEARDOWN_HCA)
    assert DECISIONS not in ledger.accounts


def test_decisions_are_not_kept_without_memory_for_them(switch, monkeypatch):
    ledger = switch.manager.hca.ledger
    switch.entry()
    monkeypatch.setattr(ledger, "limit", ledger.used)
    for _ in range(2):
        switch.sq.send(MARK, ring=False)
        assert switch.settle() == [MARK]
        assert DECISIONS not in ledger.accounts
    assert not switch.manager.hca.eswitch.fdb.decisions


def test_packets_are_charged_for_what_decides_which_are_alike(switch):
    """All that can be matched of a packet inside, for each packet, whatever is kept."""
    flows = switch.tables(FlowTableType.FDB)
    switch.entry()
    switch.sq.send(MARK, ring=False)
    switch.settle()
    plain = switch.cost
    switch.sq.send(MARK, ring=False)
    switch.settle()
    assert switch.cost == plain
    data = MARK[:14]
    given = reformat_fields(ReformatType.L3_TUNNEL_TO_L2, data)
    number = switch.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **given).packet_reformat_id
    group = flows.group(switch.second, 0, 0)
    flows.entry(
        switch.second, 0, group, to_vport(UPLINK), also=FlowAction.PACKET_REFORMAT,
        beside={"packet_reformat_id": number},
    )  # fmt: skip
    switch.sq.send(MARK, ring=False)
    switch.settle()
    before = switch.cost
    switch.sq.send(MARK, ring=False)
    assert switch.settle() == [MARK]
    assert switch.cost > before


def test_destinations_that_are_never_visited_are_charged(switch):
    """A packet ends after MAX_TABLES of them; who leads it to more has to pay for these as well."""
    flows = switch.tables(FlowTableType.FDB)
    tables = [flows.table(0, log_size=0) for _ in range(32)]
    for table in tables:
        flows.entry(table, 0, flows.group(table, 0, 0), *[to_table(one) for one in tables] * 2)
    flows.set_root(tables[0])
    switch.sq.send(MARK, ring=False)
    assert switch.settle() == []
    led = MAX_TABLES * 2 * len(tables) * FIELDS_PER_DESTINATION
    assert switch.cost >= led >> LOG_STEERED_PER_STEP


def test_moving_headers_of_large_frames_is_charged_by_their_bytes(switch):
    """Each step that moves headers makes all of a frame anew."""
    flows, tables, costs, ways = switch.tables(FlowTableType.FDB), [], [], []
    given = reformat_fields(ReformatType.REMOVE_HDR, size=4, param_1=54)
    number = switch.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **given).packet_reformat_id
    tables = [flows.table(0, log_size=0, reformat_en=1) for _ in range(TABLES)]
    for table, following in pairwise([*tables, None]):
        to = to_vport(UPLINK) if following is None else to_table(following)
        flows.entry(
            table, 0, flows.group(table, 0, 0), to, also=FlowAction.PACKET_REFORMAT,
            beside={"packet_reformat_id": number},
        )  # fmt: skip
    flows.set_root(tables[0])
    for packets in (2, PACKETS):
        switch.longest, before = 0, switch.cost
        switch.send_large(bytes(MSS * packets))
        (frame,) = switch.settle()
        assert len(frame) == 54 - 4 * TABLES + MSS * packets
        costs.append(switch.longest - packets * STEPS_PER_FRAME)
        ways.append(switch.cost - before)
    once = TABLES * MSS * (PACKETS - 2) >> LOG_BYTES_PER_STEP
    assert ways[1] - ways[0] >= once - TABLES, "as no decision was kept, less what is rounded off"
    assert costs[1] - costs[0] >= 2 * once - TABLES


class Read(FlowEntry):
    """An entry that counts how often it is looked at."""

    count = 0

    def __getattribute__(self, name):
        Read.count += 1
        return super().__getattribute__(name)


def test_a_packet_looks_at_no_entries_for_other_sources(switch, monkeypatch):
    """Of those with one key it finds the lowest for its source."""
    monkeypatch.setattr("firmware_cmds.steering.fte.FlowEntry", Read)
    flows, count = switch.tables(FlowTableType.FDB), 500
    table = flows.table(0, log_size=9)
    criteria = {"enable": OUTER, "match_criteria": match(ip_version=0xF)}
    group = flows.group(table, 0, count, **criteria)
    for index in range(count):
        source = FlowSource.LOCAL_VPORT if index == count - 2 else FlowSource.UPLINK
        flows.entry(table, index, group, to_vport(UPLINK), value=match(ip_version=4), source=source)
    flows.set_root(table)
    Read.count = 0
    switch.sq.send(MARK, ring=False)
    assert switch.settle() == [MARK]
    assert 0 < Read.count < 20
