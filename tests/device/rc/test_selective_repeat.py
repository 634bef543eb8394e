"""Selective repeat over RoCE (register ROCE_ACCL): only what was lost is sent again."""

import pytest

from emu.device.state.held import HELD, MAX_HELD
from emu.driver.nodes.cable import Cable, DueTimers
from emu.driver.nodes.roce import RoceNode, functions_on
from emu.driver.nodes.two_nodes import brought_up
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Status
from layouts.enums.qp import QpType
from layouts.enums.regs import RegId
from layouts.regs.roce_accl import roce_accl_reg
from layouts.wire.bth import PacketKind

MTU, MS = 1024, 1_000_000
PACKETS = 40
TEXT = (bytes(range(251)) * 200)[: PACKETS * MTU]
BOTH, NEITHER = (True, True), (False, False)
WRITES, SENDS = PacketKind.WRITE, PacketKind.SEND


def set_accl(driver, **fields):
    return driver.write_register(RegId.ROCE_ACCL, bytes(roce_accl_reg.new(**fields).buf))


def switch(node, *, on):
    answer = set_accl(
        node.driver, selective_repeat_forced_en_field_select=1, selective_repeat_forced_en=on
    )
    assert answer.status == Status.OK


class Backlog:
    """Two nodes on a cable; the packets of ``kind`` whose numbers are in ``lost`` do not arrive."""

    def __init__(self, clock, selective):
        cable = Cable()
        wires = cable, cable.other()
        self.nodes = brought_up(RoceNode, functions_on(wires, clock), cable, DueTimers(clock))
        for node, on in zip(self.nodes, selective):
            switch(node, on=on)
        cable.tap = self.tap
        self.clock, self.lost, self.seen, self.kind = clock, set(), 0, PacketKind.WRITE
        self.late = []
        self.channel = Channel(QpType.RC, *self.nodes, ack_timeout=14, mtu=3)
        self.source, self.target = (node.region(len(TEXT)) for node in self.nodes)
        self.source.write(TEXT)

    def tap(self, frame):
        packet, _ = self.nodes[0].hca.link.parse(frame)
        if packet.op.kind is not self.kind:
            return [frame]
        self.seen += 1
        return [] if self.seen - 1 in self.lost else [frame]

    def write(self, packets=PACKETS):
        there = self.target.key, self.target.va
        self.channel.write(there, self.source.sge(0, packets * MTU))

    def send(self, packets):
        """SENDs of a packet each, to places of their own."""
        for at in range(packets):
            self.channel.post_recv(self.target.sge(at * MTU, MTU))
        for at in range(packets):
            self.channel.send(self.source.sge(at * MTU, MTU))

    def took(self, requests=1):
        """Simulated milliseconds until so many requests are complete."""
        return self.channel.until_sent(self.clock, requests, 5000 * MS) // MS

    def held(self):
        return [node.hca.ledger.accounts.get(HELD, 0) for node in self.nodes]


@pytest.fixture
def line(clock):
    return Backlog(clock, BOTH)


@pytest.mark.parametrize(
    "lost",
    [{5}, {5, 20}, {5, 20, 21}, {5, 20, 21, 22}, {0, 10, 20, 30}],
    # A set's own text has another order when its module comes compiled, as for a second worker.
    ids=lambda lost: str(sorted(lost)),
)
def test_only_what_was_lost_is_sent_again(line, lost):
    line.lost = lost
    line.write()
    assert line.took() == 0
    assert line.target.read(0, len(TEXT)) == TEXT
    assert line.seen == PACKETS + len(lost)


def test_packets_lost_in_a_row_before_anything_is_known_of_the_peer(line):
    line.lost = {5, 6}
    line.write()
    assert line.took() == 0
    assert line.target.read(0, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("selective", "repeated"),
    [(NEITHER, PACKETS - 5), ((True, False), 1 + PACKETS - 6)],
    ids=["neither side has it", "the peer keeps nothing"],
)
def test_all_from_the_loss_on_is_sent_again(clock, selective, repeated):
    line = Backlog(clock, selective)
    line.lost = {5}
    line.write()
    assert line.took() == 0
    assert line.target.read(0, len(TEXT)) == TEXT
    assert line.seen == PACKETS + repeated


def test_a_requester_that_goes_back_meets_packets_that_were_kept(clock):
    line = Backlog(clock, (False, True))
    line.lost = {5}
    line.write()
    assert line.took() == 0
    assert line.target.read(0, len(TEXT)) == TEXT


def test_a_lost_repetition_costs_a_question(line):
    line.lost = {5, PACKETS}
    line.write()
    assert 0 < line.took() < 100
    assert line.target.read(0, len(TEXT)) == TEXT
    assert line.seen <= PACKETS + 4


def test_messages_complete_in_order(line):
    line.kind, line.lost = SENDS, {2, 9}
    line.send(20)
    assert line.took(20) == 0
    received = line.channel.received()
    assert [one.byte_cnt for one in received] == [MTU] * 20
    assert [one.wqe_counter for one in received] == list(range(20))
    assert line.target.read(0, 20 * MTU) == TEXT[: 20 * MTU]
    assert line.seen == 22


def test_reads_among_writes(line):
    """A READ after a gap is not kept."""
    line.target.write(TEXT[::-1])
    line.lost = {1}
    line.write(4)
    line.channel.read((line.target.key, line.target.va), line.source.sge(8 * MTU, 4 * MTU))
    line.write(4)
    assert line.took(3) == 0
    assert line.source.read(8 * MTU, 4 * MTU) == TEXT[: 4 * MTU]


def test_receiver_that_is_not_ready_keeps_nothing(line):
    """Of ten SENDs one is lost, and the receiver has room for five only."""
    line.kind, line.lost = SENDS, {2}
    for at in range(5):
        line.channel.post_recv(line.target.sge(at * MTU, MTU))
    for at in range(10):
        line.channel.send(line.source.sge(at * MTU, MTU))
    line.channel.settle()
    assert len(line.channel.sent()) == 5
    assert line.held() == [0, 0]
    for at in range(5, 10):
        line.channel.post_recv(line.target.sge(at * MTU, MTU))
    assert line.took(5) < 1000
    assert line.target.read(0, 10 * MTU) == TEXT[: 10 * MTU]


def test_what_is_kept_is_bounded_and_given_back(line):
    line.lost = {0} | set(range(PACKETS, PACKETS + 1000))  # and no repetition arrives
    line.write()
    line.channel.settle()
    kept = line.held()[1]
    assert 0 < kept <= MAX_HELD * 2 * MTU
    line.channel.receiver.to_error()
    assert line.held() == [0, 0]


def test_connections_from_before_stay_as_they_are(clock):
    line = Backlog(clock, NEITHER)
    line.write()
    assert line.took() == 0
    for node in line.nodes:
        switch(node, on=True)
    line.lost = {PACKETS + 5}
    line.write()
    assert line.took() == 0
    assert line.seen == 2 * PACKETS + PACKETS - 5


# -- the register


@pytest.fixture
def driver(line):
    return line.nodes[0].driver


def test_register_says_what_can_be_set(driver):
    reg = driver.read_register(RegId.ROCE_ACCL, roce_accl_reg)
    assert reg.roce_adp_retrans_field_select == reg.roce_adp_retrans_en == 1
    assert reg.selective_repeat_forced_en_field_select == reg.selective_repeat_forced_en == 1
    assert not reg.roce_slow_restart_field_select
    assert not reg.adaptive_routing_forced_en_field_select


def test_only_selected_fields_are_written(driver):
    assert set_accl(driver, roce_adp_retrans_field_select=1).status == Status.OK
    reg = driver.read_register(RegId.ROCE_ACCL, roce_accl_reg)
    assert (reg.roce_adp_retrans_en, reg.selective_repeat_forced_en) == (0, 1)


@pytest.mark.parametrize(
    "name",
    ["roce_slow_restart_field_select", "roce_tx_window_field_select", "adp_retx_profile_select"],
)
def test_what_is_not_modelled_is_refused_and_changes_nothing(driver, name):
    before = bytes(driver.read_register(RegId.ROCE_ACCL, roce_accl_reg).buf)
    answer = set_accl(driver, **{name: 1}, roce_adp_retrans_field_select=1)
    assert answer.status == Status.BAD_PARAM_ERR
    assert bytes(driver.read_register(RegId.ROCE_ACCL, roce_accl_reg).buf) == before


def test_without_adaptive_retransmission_the_timeout_decides(line):
    for node in line.nodes:
        assert set_accl(node.driver, roce_adp_retrans_field_select=1).status == Status.OK
    line.lost = {PACKETS - 1}
    line.write()
    assert line.took() > 200
    assert line.target.read(0, len(TEXT)) == TEXT
