"""Reliable connections over wires that lose, double, delay and reorder packets at random.

Compared with a plain model: every request completes once and in order, with the data that were
sent. A request may fail only when nothing has moved for as long as the program's timeout and
retries allow.
"""

from typing import NamedTuple

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.engine.rc.packets.connection import connection_of
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.completions import ERRORS
from emu.driver.world.clock import HandClock
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

MTU, MS = 256, 1_000_000
CODE, RETRIES = 13, 3
TIMEOUT = 4 * (ACK_TIMEOUT_UNIT_NS << CODE)
PLACE, PLACES = 3 * MTU, 24
"""Each request has a place of its own in memory."""
TEXT = (bytes(range(251)) * 80)[: PLACE * PLACES]
STEP = 2 * MS


class NetemDecision(NamedTuple):
    """What happens to a packet: how many copies arrive, and how much later."""

    copies: int
    delay_ms: int


RUNS = st.tuples(
    st.builds(
        NetemDecision,
        st.sampled_from([1, 1, 1, 1, 0, 0, 2]),
        st.sampled_from([0, 0, 0, 0, 0, 3, 15, 60, TIMEOUT // MS * 6 // 10]),
    ),
    st.integers(1, 12),
)
"""So many packets, one after the other, have the same decision."""
SELECTIVE = st.tuples(st.booleans(), st.booleans())
"""Which side repeats selectively."""
requests = st.lists(
    st.tuples(
        st.sampled_from(["write", "send", "read", "add"]),
        st.sampled_from([0, 1, MTU, 2 * MTU + 7, PLACE]),
    ),
    min_size=1,
    max_size=PLACES,
)


class Run:
    """One connection with its requests; ``fates`` are those of the first packets."""

    def __init__(self, model, fates, selective):
        self.wire, self.clock, self.fates = PacketWire(), HandClock(), list(fates)
        pair = two_nodes(model, self.clock, self.wire, self.wire)
        self.wire.tap = self.tap
        self.channel = Channel(QpType.RC, *pair, ack_timeout=CODE, mtu=1, retry_count=RETRIES)
        left, right = pair
        queue_pairs = self.channel.sender, self.channel.receiver
        for node, qp, is_on in zip(pair, queue_pairs, selective):
            connection = connection_of(node.hca, node.hca.qps.get(qp.qpn))
            connection.repeats_selectively = is_on
        self.source, self.target = left.region(len(TEXT)), right.region(len(TEXT))
        self.back, self.origin = left.region(len(TEXT)), right.region(len(TEXT))
        self.counter = right.region(8)
        self.source.write(TEXT)
        self.origin.write(TEXT[::-1])
        self.posted, self.done, self.failure = [], [], None

    def tap(self, frame):
        decision = self.fates.pop(0) if self.fates else NetemDecision(1, 0)
        if not decision.delay_ms:
            return [frame] * decision.copies
        for _ in range(decision.copies):
            self.clock.call_later(decision.delay_ms * MS, lambda: self.wire.arrive(frame))
        return []

    def post(self, number, op, length):
        channel, at = self.channel, PLACE * number
        there = self.target.key, self.target.va + at
        if op == "write":
            self.posted.append(channel.write(there, self.source.sge(at, length)))
        elif op == "send":
            channel.post_recv(self.target.sge(at, PLACE))
            self.posted.append(channel.send(self.source.sge(at, length)))
        elif op == "read":
            there = self.origin.key, self.origin.va + at
            self.posted.append(channel.read(there, self.back.sge(at, length)))
        else:
            there = self.counter.key, self.counter.va
            self.posted.append(channel.fetch_add(there, self.back.sge(at, 8), 1))

    def finish(self):
        """Let time pass until all is complete or has failed; returns the longest standstill."""
        qp = self.channel.left.hca.qps.get(self.channel.sender.qpn)
        una, since = None, self.clock.ns
        for _ in range(100 * TIMEOUT // STEP):
            self.channel.settle()
            found = self.channel.sender.cq.drain()
            self.done += [one for one in found if one.opcode not in ERRORS]
            failed = [one for one in found if one.opcode in ERRORS]
            if failed:
                self.failure = failed[0].syndrome
            if failed or len(self.done) == len(self.posted):
                return self.clock.ns - since
            if una != qp.connection.completer.window.una:
                una, since = qp.connection.completer.window.una, self.clock.ns
            self.clock.advance(STEP)
        raise AssertionError("it never ends")

    def check(self, wanted):
        """The completions, and the memory of both sides, for what is complete."""
        assert [one.wqe_counter for one in self.done] == self.posted[: len(self.done)]
        added = 0
        for number, (op, length) in enumerate(wanted[: len(self.done)]):
            at = PLACE * number
            if op == "add":
                assert self.back.read(at, 8) == added.to_bytes(8, "little")
                added += 1
            elif op == "read":
                assert self.back.read(at, length) == TEXT[::-1][at : at + length]
            else:
                assert self.target.read(at, length) == TEXT[at : at + length]
                assert not any(self.target.read(at + length, PLACE - length))
        if self.failure is None:
            assert self.counter.read() == added.to_bytes(8, "little")
            sends = [length for op, length in wanted if op == "send"]
            assert [one.byte_cnt for one in self.channel.received()] == sends


@pytest.mark.hostile
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=requests, runs=st.lists(RUNS, max_size=30), selective=SELECTIVE)
def test_whatever_the_wire_does(model, wanted, runs, selective):
    run = Run(model, [decision for decision, count in runs for _ in range(count)], selective)
    for number, (op, length) in enumerate(wanted):
        run.post(number, op, length)
    standstill = run.finish()
    if run.failure is not None:
        assert run.failure == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert standstill + STEP >= RETRIES * TIMEOUT
    run.check(wanted)
