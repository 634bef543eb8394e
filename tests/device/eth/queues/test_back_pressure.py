"""Send queues wait for a function of the same segment that has too few receive requests."""

import pytest
from helpers.device.credits import credits_of

from emu.device.faults.link import PlannedLink
from emu.device.port.eth.frame import Frame
from emu.device.rounds.costs import LOG_CREDITS_PER_STEP
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import HairpinPair
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.roce import on_one_segment
from emu.driver.world.cable import arrive
from emu.driver.world.tap_wire import TapWire
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.link.direction import LinkDirection
from layouts.enums.cmd import Op
from layouts.enums.regs import RegId
from layouts.enums.wq import SqState
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.regs.port_regs import pfcc_reg

REQUESTS = 256
PAUSE, NONE = {"pptx": 1, "pprx": 1}, {}
PRIORITY = 3
POLL_NS = 200_000
"""How often a queue that waits asks again: sooner than the longest pause frame ends."""
MAX_UNCONFIRMED_PACKETS = 256
"""How many packets are sent before the receiver is asked again."""
CHECKS = EthChecksum.L3 | EthChecksum.L4


def flow_control(node, **fields):
    reg = pfcc_reg.new(local_port=1, prio_mask_tx=0xFF, prio_mask_rx=0xFF, **fields)
    assert not node.driver.write_register(RegId.PFCC, bytes(reg)).status


def lead(node, rqn):
    """Give a queue all frames that come to a function."""
    flows = Flows(node.driver)
    table = flows.table(1)
    tir = create_direct_tir(node.driver, alloc_td(node.driver), rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tir))
    flows.set_root(table)


class Ends:
    """A sender, and a receiver whose driver posts requests when the test says so."""

    def __init__(self, clock, nodes=2, **tis):
        self.clock = clock
        self.sender, self.receiver, *self.others = on_one_segment(clock, nodes)
        self.counter = self.receiver.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
        self.rq = ReceiveQueue(
            self.receiver, log_size=8, cq=self.receiver.completion_queue(12),
            counter_set_id=self.counter,
        )  # fmt: skip
        lead(self.receiver, self.rq.rqn)
        self.buffers = Buffers(self.rq, 256, count=REQUESTS)
        self.sq = self.queue(self.sender, **tis)
        self.queue(self.receiver).send(self.frame(self.receiver, self.sender, 18))
        self.sender.settle()

    def queue(self, node, **tis):
        tisn = create_tis(node.driver, alloc_td(node.driver), **tis)
        return SendQueue(node, log_size=10, cq=node.completion_queue(11), tisn=tisn)

    def frame(self, node, to, octets):
        data = to.mac + node.mac + EthPacket(payload=bytes(octets)).frame()[12:]
        region = node.region(1 << 12)
        region.write(data)
        return region.sge(0, len(data))

    def send(self, count):
        frame = self.frame(self.sender, self.receiver, 18)
        for _ in range(count):
            self.sq.send(frame, ring=False)
        self.sq.ring_doorbell()
        self.sender.settle()

    def send_large(self, packets):
        header = self.receiver.mac + self.sender.mac + EthPacket(payload=b"").frame()[12:54]
        region = self.sender.region(packets * 100)
        self.sq.send(region.sge(), opcode=Opcode.LSO, mss=100, headers=header, cs_flags=CHECKS)
        self.sender.settle()

    def later(self, ns=POLL_NS):
        self.clock.advance(ns)
        self.sender.settle()

    def lost(self):
        answer = self.receiver.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=self.counter)
        return answer.out_of_buffer

    def came(self):
        """Packets that have come since the last look; their requests are posted again."""
        count = len(self.buffers.drain())
        for _ in range(count):
            self.buffers.post()
        return count


@pytest.fixture
def ends(clock):
    return Ends(clock)


@pytest.mark.parametrize("side", ["both", "sender", "receiver", "neither"])
def test_nothing_is_lost_if_both_ends_have_pause_frames(ends, side):
    flow_control(ends.sender, **(PAUSE if side in ("both", "sender") else NONE))
    flow_control(ends.receiver, **(PAUSE if side in ("both", "receiver") else NONE))
    ends.send(REQUESTS + 200)
    if side != "both":
        assert (ends.came(), ends.lost()) == (REQUESTS, 200)
        return
    total = ends.came()
    assert REQUESTS // 2 < total <= REQUESTS
    while total < REQUESTS + 200:
        ends.later()
        total += ends.came()
    assert ends.lost() == 0
    sent, received = ends.receiver.hca.eth.flow.sent, ends.sender.hca.eth.flow.received
    assert sent.global_ == received.global_ >= 2
    assert sent.frames == received.frames == [sent.global_] * 8
    assert received.transitions == [received.global_ // 2] * 8
    assert received.duration_ns == [received.duration_ns[0]] * 8
    assert received.duration_ns[0] >= POLL_NS


@pytest.mark.parametrize("last", ["sender", "receiver"])
def test_pause_frames_that_are_turned_on_hold_from_the_next_frame_on(ends, last):
    """The sender has credits from before, more than the receiver has room for."""
    nodes = [ends.receiver, ends.sender] if last == "sender" else [ends.sender, ends.receiver]
    for node in nodes:
        flow_control(node)
    for _ in range(2):
        ends.send(1)
    assert ends.sender.hca.link_partner.credit == MAX_UNCONFIRMED_PACKETS - 1
    assert ends.came() == 2
    for node in nodes:
        flow_control(node, **PAUSE)
    for _ in range(8):
        ends.send_large(60)
    assert ends.lost() == 0


def test_two_senders_do_not_share_the_same_requests(clock):
    """Each could send all that the receiver has requests for when it was asked."""
    ends = Ends(clock, nodes=3)
    (other,) = ends.others
    queues = {ends.sender: ends.sq, other: ends.queue(other)}
    each, total = 180, 0

    def post(count):
        for node, sq in queues.items():
            frame = ends.frame(node, ends.receiver, 18)
            for _ in range(count):
                sq.send(frame, ring=False)

    def ring():
        for sq in queues.values():
            sq.ring_doorbell()
        ends.sender.settle()

    for _ in range(2):  # the first frame to an address takes no credits
        post(1)
        ring()
    assert ends.came() == 4
    post(each)
    ring()
    for _ in range(20):
        total += ends.came()
        ends.later()
    assert (total, ends.lost()) == (2 * each, 0)


def test_credits_do_not_outlive_the_queues_of_a_receiver_that_is_reset(ends):
    for _ in range(2):
        ends.send(1)
    assert ends.sender.hca.link_partner.credit
    ends.receiver.function.reset()
    assert not ends.sender.hca.link_partner.credit


def test_large_sends_find_room_for_all_their_packets(ends):
    for _ in range(8):
        ends.send_large(60)
    total = ends.came()
    assert total % 60 == 0
    while total < 8 * 60:
        ends.later()
        total += ends.came()
    assert ends.lost() == 0


@pytest.mark.parametrize("priority", [PRIORITY, PRIORITY + 1])
def test_by_priority(clock, priority):
    """As the driver makes a TIS for each (core/en_common.c: mlx5e_create_tises)."""
    ends = Ends(clock, prio=priority << 1)
    for node in (ends.sender, ends.receiver):
        flow_control(node, pfctx=1 << PRIORITY, pfcrx=1 << PRIORITY)
    ends.send(REQUESTS + 10)
    if priority == PRIORITY:
        assert ends.came() < REQUESTS
        ends.later()
        assert ends.came()
        assert ends.sender.hca.eth.flow.received.frames == [0, 0, 0, 2, 0, 0, 0, 0]
    else:
        assert ends.came() == REQUESTS
    assert ends.lost() == (0 if priority == PRIORITY else 10)


def test_a_priority_does_not_send_with_the_credits_of_another(clock):
    """Frames that nobody pauses, in between, release no paused queue."""
    ends = Ends(clock, prio=PRIORITY << 1)
    for node in (ends.sender, ends.receiver):
        flow_control(node, pfctx=1 << PRIORITY, pfcrx=1 << PRIORITY)
    other = ends.queue(ends.sender, prio=0)
    ends.send(REQUESTS + 200)
    frame = ends.frame(ends.sender, ends.receiver, 18)
    for _ in range(5):
        other.send(frame)
        ends.later()
    assert ends.lost() == 0
    assert ends.sender.hca.eth.flow.received.frames[PRIORITY] == 1
    total = ends.came()
    assert total < REQUESTS
    while total < REQUESTS + 205:
        ends.later()
        total += ends.came()
    assert ends.lost() == 0


def test_a_receiver_that_is_stuck_is_waited_for_as_long_as_its_driver_says(ends):
    """What ethtool's pfc-prevention-tout sets; the next ones are lost."""
    flow_control(
        ends.receiver, **PAUSE, critical_stall_mask=1, device_stall_critical_watermark=100,
        minor_stall_mask=1, device_stall_minor_watermark=80,
    )  # fmt: skip
    ends.send(REQUESTS + 10)
    ends.later(99_000_000)
    assert ends.lost() == 0
    ends.later(2_000_000)
    assert ends.lost() == 10
    flow = ends.receiver.hca.eth.flow
    assert (flow.storms, flow.warnings) == (1, 1)


def test_two_that_wait_for_each_other_go_on(ends):
    """Both are stuck: after the time both send, and lose."""
    two = SendQueue(
        ends.receiver, log_size=10, cq=ends.receiver.completion_queue(11),
        tisn=create_tis(ends.receiver.driver, alloc_td(ends.receiver.driver)),
    )  # fmt: skip
    back = ReceiveQueue(ends.sender, log_size=8, cq=ends.sender.completion_queue(12))
    Buffers(back, 256, count=REQUESTS)
    lead(ends.sender, back.rqn)
    ends.send(1)  # the segment learns where the sender is
    frame = ends.frame(ends.receiver, ends.sender, 18)
    for _ in range(REQUESTS + 10):
        two.send(frame, ring=False)
    two.ring_doorbell()
    ends.send(REQUESTS + 10)
    assert len(two.cq.drain()) < REQUESTS + 10
    for _ in range(20):
        ends.later(100_000_000)
    assert len(ends.sq.cq.drain()) == REQUESTS + 11
    assert ends.lost() == 11


@pytest.mark.parametrize("pauses", [True, False])
def test_a_hairpin_waits(ends, pauses):
    """What a function receives and sends on waits in it, as long as there is room."""
    flow_control(ends.receiver, **(PAUSE if pauses else NONE))
    driver = ends.sender.driver
    lead(ends.sender, HairpinPair(driver, driver).rqn)
    data = ends.receiver.mac + bytes.fromhex("020000000007") + EthPacket().frame()[12:]
    for _ in range(REQUESTS + 200):
        arrive(ends.sender.hca, Frame(data))
    ends.sender.settle()
    total = ends.came()
    if not pauses:
        assert (total, ends.lost()) == (REQUESTS, 200)
        return
    assert REQUESTS // 2 < total <= REQUESTS
    while total < REQUESTS + 200:
        ends.later()
        total += ends.came()
    assert ends.lost() == 0


def test_what_is_on_its_way_on_a_slow_link_is_not_held_back(ends):
    """A pause frame comes too late for it, as on a cable that is longer than the buffers are."""
    port, ledger = ends.receiver.hca.segment, ends.receiver.hca.ledger
    link = PlannedLink.model_validate({"delay": "10ms"})
    port.rx_link = LinkDirection("rx", ends.clock, lambda: ledger, link)
    ends.send(REQUESTS + 200)
    ends.later(10_000_000)
    assert ends.lost() == 200
    ends.send(2 * MAX_UNCONFIRMED_PACKETS)
    ends.later(10_000_000)
    assert 200 <= ends.lost() <= 200 + MAX_UNCONFIRMED_PACKETS, "the others wait"
    assert ends.came() == REQUESTS


@pytest.mark.parametrize("end", ["reset", "gone"])
def test_nothing_is_left_of_a_queue_that_waits(ends, end):
    ends.send(REQUESTS + 10)
    waiting = ends.clock.waiting()
    if end == "reset":
        ends.sq.modify(SqState.RST)
    else:
        ends.sq.modify(SqState.ERR)
        ends.sender.driver.must(Op.DESTROY_SQ, sqn=ends.sq.sqn)
    assert ends.clock.waiting() == waiting - 1
    ends.later()
    assert ends.came() <= REQUESTS


def test_nobody_is_asked_for_each_frame(ends, monkeypatch):
    """Neither where there is room for many, nor where nobody has to be waited for."""
    asked = []
    credits_to = FunctionPort.credits_to
    monkeypatch.setattr(
        FunctionPort, "credits_to", lambda *words: asked.append(1) or credits_to(*words)
    )
    ends.send(120)
    ends.came()
    assert len(asked) <= 2
    flow_control(ends.sender, **NONE)
    ends.send(2 * MAX_UNCONFIRMED_PACKETS)
    assert len(asked) <= 5


def test_a_wire_of_one_function_is_seldom_asked(node, sq, eth_wire, monkeypatch):
    asked = []
    credits_to = TapWire.credits_to
    monkeypatch.setattr(TapWire, "credits_to", lambda *words: asked.append(1) or credits_to(*words))
    region = node.region(1 << 12)
    region.write(EthPacket().frame())
    for _ in range(200):
        sq.send(region.sge(0, 60))
        node.settle()
        sq.cq.drain()
    assert len(eth_wire.sent()) == 200
    assert len(asked) <= 2


@pytest.mark.hostile
def test_looking_at_many_queues_is_charged(clock):
    """A sender may ask after each frame when one of the queues has hardly any requests."""
    node, queues = on_one_segment(clock)[1], 64
    flows, region = Flows(node.driver), node.region(2048)
    td, tirs = alloc_td(node.driver), []
    for _ in range(queues):
        rq = ReceiveQueue(node, log_size=6)
        rq.post(region.sge())
        rq.post(region.sge())
        tirs.append(to_tir(create_direct_tir(node.driver, td, rq.rqn)))
    table = flows.table(1)
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs)
    flows.set_root(table)
    hca = node.hca
    arrive(hca, Frame(node.mac + EthPacket().frame()[6:]))
    before = hca.budget.steps
    assert credits_of(hca, clock) == 1
    assert hca.budget.steps - before >= queues >> LOG_CREDITS_PER_STEP
