"""Messages in packets, and objects that go while they are under way: random ends of random traffic.

Two functions exchange packets that a test holds in its hand. Queues, keys and queue pairs of the
receiving one are destroyed between any two packets, and their numbers are soon used again. What a
driver has got back is never written to, and what a completion says is there.
"""

import logging
from dataclasses import dataclass, field, replace

import pytest
from helpers.random.examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from emu.device.models import MODELS
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.channels import GRH_BYTES, QKEY
from emu.driver.verbs.connect import connect
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.shared_queue import SharedQueue
from emu.driver.world.clock import HandClock
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType, RqType

pytestmark = pytest.mark.hostile

MODEL = MODELS["connectx6"]
FEW = {"log_max_srq": 3, "log_max_cq": 5, "log_max_qp": 7}
SMALL = replace(MODEL, general={**MODEL.general, **FEW})
PAGE = 4096
MTU, MTU_CODE = 256, 1
SLOT, MAX_MESSAGES = 4 * MTU, 250
"""A message is its number, again and again, and has a place of its own at the sender."""
PLACES = 7
"""Pages of a region for receive requests; the one behind them is for RDMA WRITEs."""
MAX_POSTED, MAX_WAYS, ENDS_EVERY = 6, 4, 3
LOST_NS = 1_000_000_000
GONE = b"\xa5" * PAGE
RECEIVED = (CqeOpcode.RESP_SEND, CqeOpcode.RESP_SEND_IMM)
ENDS = ("shared queue", "CQ", "region", "queue pair", "to ERR", "to RST")

KINDS = {
    "RC": (QpType.RC, None), "RC, shared list": (QpType.RC, "rmp"),
    "RC, shared ring": (QpType.RC, "ring"), "UC": (QpType.UC, None),
    "UC, shared list": (QpType.UC, "rmp"), "UD": (QpType.UD, None),
    "UD, shared ring": (QpType.UD, "ring"), "XRC": (QpType.XRC, "xrc"),
}  # fmt: skip


@dataclass(eq=False)
class Way:
    """A sender, and what it sends to; None is what has been destroyed."""

    service: QpType
    sender: QueuePair
    receiver: QueuePair | None
    cq: object
    srq: SharedQueue | None
    region: object
    posted: dict = field(default_factory=dict)
    """Index of a receive request to its place in the region."""
    is_over: bool = False
    """Something of it was stopped or destroyed: nothing has to arrive any more."""


class Ends(RuleBasedStateMachine):
    """Ways from the left function to the right one, and their ends."""

    def __init__(self):
        super().__init__()
        self.clock, self.wire = HandClock(), PacketWire()
        # The wire is none of what runs with the functions: packets move when a rule says so.
        self.left, self.right = two_nodes(
            SMALL, self.clock, self.wire, make_memory=lambda: Memory(8 << 20)
        )
        self.source = self.left.region(SLOT * (MAX_MESSAGES + 1))
        self.ways, self.sent, self.given_back = [], {}, []
        self.number = 0
        self.newest = None
        """The way that was sent on last."""
        self.since_end = 0
        self.foreign = self.left.driver.must(Op.ALLOC_XRCD).xrcd
        self.domain = self.right.driver.must(Op.ALLOC_XRCD).xrcd
        # What XRC targets refer to (hw/qp.c: create_xrc_tgt_qp); no message is for it.
        self.default = SharedQueue(
            self.right, log_size=1, xrcd=self.domain, cq=self.right.completion_queue()
        )

    def settle(self):
        self.left.settle()
        self.right.settle()
        self.look()

    # -- ways begin

    @initialize(first=st.sampled_from(sorted(KINDS)))
    def begin(self, first):
        self.open("XRC")
        self.open(first)

    @precondition(lambda self: len(self.ways) < MAX_WAYS)
    @rule(kind=st.sampled_from(sorted(KINDS)))
    def open(self, kind):
        service, form = KINDS[kind]
        cq, region = self.right.completion_queue(6), self.right.region((PLACES + 1) * PAGE)
        srq = None
        if service is QpType.XRC:
            srq = SharedQueue(self.right, log_size=3, xrcd=self.domain, cq=cq)
            sender = QueuePair(
                self.left, service, rq_type=RqType.ZERO_LEN_RQ, log_rq_size=0, log_rq_stride=0,
                xrcd=self.foreign,
            )  # fmt: skip
            options = {"srq": self.default, "xrcd": self.domain, "no_sq": 1}
        else:
            if form is not None:
                srq = SharedQueue(self.right, log_size=3, form=form)
            sender = QueuePair(self.left, service)
            options = {"srq": srq, "rcq": cq, "log_rq_size": 3}
        receiver = QueuePair(self.right, service, log_cq_size=6, **options)
        self.join(service, sender, receiver)
        self.ways.append(Way(service, sender, receiver, cq, srq, region))

    def join(self, service, sender, receiver):
        if service is QpType.UD:
            for qp in (sender, receiver):
                qp.init(q_key=QKEY, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0).to_rts(0x10)
        else:
            connect(sender, receiver, mtu=MTU_CODE, ack_timeout=4, retry_count=1, rnr_retry=1)

    def way(self, number):
        """One of the ways; 0 is the newest one, on which most is under way."""
        if not number and any(way is self.newest for way in self.ways):
            return self.newest
        return self.ways[number % len(self.ways)]

    # -- traffic

    def post(self, way):
        queue = way.srq or way.receiver
        if queue is None or way.region is None or way.is_over or len(way.posted) >= MAX_POSTED:
            return
        place = min(set(range(PLACES)) - set(way.posted.values()))
        sge = way.region.sge(place * PAGE, PAGE)
        if way.srq is not None:
            index = queue.post(sge)
        else:
            index = queue.received & 0xFFFF
            queue.post_recv(sge)
        way.posted[index] = place

    @precondition(lambda self: self.ways)
    @rule(
        number=st.integers(0, 3), length=st.integers(1, SLOT),
        has_room=st.sampled_from([True, True, False]), has_immediate=st.booleans(),
        is_write=st.sampled_from([False, False, True]), count=st.integers(0, 4),
    )  # fmt: skip
    def send(self, number, length, has_room, has_immediate, is_write, count):
        """A message, and its first packets."""
        self.send_on(self.way(number), length, has_room, has_immediate, is_write, count)

    def send_on(self, way, length, has_room, has_immediate, is_write, count):
        self.newest = way
        if has_room:
            self.post(way)
        self.number = self.number % MAX_MESSAGES + 1
        at = SLOT * self.number
        self.source.write(bytes([self.number]) * length, at)
        self.sent[self.number] = length
        options = {"imm": self.number} if has_immediate else {}
        self.request(way, self.source.sge(at, length), is_write, options)
        self.left.settle()
        self.deliver(count)

    def request(self, way, sge, is_write, options):
        if way.service is QpType.UD:
            qpn = way.receiver.qpn if way.receiver else 1
            to = {"dqp_dct": qpn, "rlid": self.right.lid, "key": QKEY << 32}
            way.sender.datagram(to, sge, **options)
            return
        if way.service is QpType.XRC:
            options["xrc_srqn"] = way.srq.srqn if way.srq else 2
        if is_write and way.region is not None:
            way.sender.write((way.region.key, way.region.va + PLACES * PAGE), sge, **options)
        else:
            way.sender.send(sge, **options)

    @rule(count=st.integers(1, 8))
    def deliver(self, count):
        self.since_end += 1
        for _ in range(count):
            self.wire.deliver()
        self.settle()

    @rule(ns=st.sampled_from([1_000_000, LOST_NS]))
    def wait(self, ns):
        self.clock.advance(ns)
        self.settle()

    def look(self):
        """What has been received is there, whole, and was sent like that."""
        for way in self.ways:
            for done in way.cq.drain() if way.cq is not None else ():
                place = way.posted.pop(done.wqe_counter, None)
                assert place is not None, done
                if way.srq is not None:
                    way.srq.free(done.wqe_counter)
                way.is_over |= done.opcode == CqeOpcode.RESP_ERR
                if done.opcode in RECEIVED and way.region is not None:
                    self.check(way, place, done.byte_cnt)

    def check(self, way, place, length):
        header = GRH_BYTES if way.service is QpType.UD else 0
        data = way.region.read(place * PAGE + header, length - header)
        (number,) = set(data)
        assert len(data) == self.sent[number]

    # -- ways end

    def destroy(self, op, **fields):
        status = self.right.driver.command(op, **fields).status
        assert status in (Status.OK, Status.BAD_RES_STATE_ERR)
        self.look()
        return status == Status.OK

    def give_back(self, pages):
        """The driver has pages for itself again."""
        for page in pages:
            self.right.memory.write(page, GONE)
        self.given_back += pages

    @precondition(lambda self: self.ways)
    @rule(
        number=st.integers(0, 3), length=st.integers(MTU + 1, SLOT), has_immediate=st.booleans(),
        count=st.integers(1, 3), ends=st.lists(st.sampled_from(ENDS), min_size=1, max_size=3),
    )  # fmt: skip
    def interrupt(self, number, length, has_immediate, count, ends):
        """A message whose way ends in the middle of it, and the rest of the packets."""
        way = self.ways[number % len(self.ways)]
        while self.wire.deliver():
            self.settle()
        self.send_on(way, length, True, has_immediate, False, count)
        for what in ends:
            self.end_one(way, what)
        self.deliver(SLOT // MTU)

    @precondition(lambda self: self.ways and self.since_end >= ENDS_EVERY)
    @rule(number=st.integers(0, 1), what=st.sampled_from(ENDS))
    def end(self, number, what):
        self.since_end = 0
        self.end_one(self.way(number), what)

    def end_one(self, way, what):
        {
            "shared queue": self.end_shared_queue, "CQ": self.end_cq, "region": self.end_region,
            "queue pair": self.end_receiver, "to ERR": self.stop, "to RST": self.restart,
        }[what](way)  # fmt: skip
        self.look()

    def stop(self, way):
        if way.receiver is not None:
            way.is_over = True
            way.receiver.to_error()

    def restart(self, way):
        if way.receiver is not None:
            way.is_over = True
            way.receiver.to_reset()
            if way.srq is None:
                way.posted.clear()

    def end_shared_queue(self, way):
        if way.srq is None:
            return
        is_xrc = way.service is QpType.XRC
        op, name = (Op.DESTROY_XRC_SRQ, "xrc_srqn") if is_xrc else (Op.DESTROY_RMP, "rmpn")
        if self.destroy(op, **{name: way.srq.srqn}):
            way.srq, way.is_over = None, True
            self.end_cq(way)

    def end_cq(self, way):
        if way.cq is not None and self.destroy(Op.DESTROY_CQ, cqn=way.cq.cqn):
            self.give_back(way.cq.pages)
            way.cq = None

    def end_region(self, way):
        if way.region is not None and self.destroy(Op.DESTROY_MKEY, mkey_index=way.region.index):
            self.give_back(way.region.pages)
            way.region, way.is_over = None, True

    def end_receiver(self, way):
        if way.receiver is not None and self.destroy(Op.DESTROY_QP, qpn=way.receiver.qpn):
            assert self.destroy(Op.DESTROY_CQ, cqn=way.receiver.cq.cqn)
            self.give_back(way.receiver.pages + way.receiver.cq.pages)
            way.receiver, way.is_over = None, True

    @precondition(lambda self: len(self.ways) == MAX_WAYS)
    @rule(number=st.integers(0, 3))
    def close(self, number):
        """All of a way goes, so that its numbers are for another one."""
        way = self.way(number)
        for part in (self.end_receiver, self.end_shared_queue, self.end_cq, self.end_region):
            part(way)
        self.ways.remove(way)
        way.sender.destroy()
        self.left.driver.must(Op.DESTROY_CQ, cqn=way.sender.cq.cqn)

    # -- what always holds

    @invariant()
    def nothing_that_was_given_back_is_written(self):
        ram, base = self.right.memory.ram, self.right.memory.base
        for page in self.given_back:
            assert ram[page - base : page - base + PAGE] == GONE, hex(page)

    @invariant()
    def no_internal_error(self):
        assert not self.left.hca.health.internal_errors
        assert not self.right.hca.health.internal_errors


def test_ends_of_random_traffic(caplog):
    caplog.set_level(logging.ERROR)
    limits = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Ends, settings=limits)
    assert not caplog.records
