"""Random requests in Ethernet queues, random frames from the wire: bounded work, no exception.

hypothesis chooses the seeds. Most requests are nearly right, because only those get far enough to
do harm. What no key grants stays as it is, and an honest frame passes at the end.
"""

import random
from typing import Any

import pytest
from helpers.device.rounds import Costs
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.device.rounds.budget import POLL_BUDGET, RX_BUDGET, STEPS_PER_ACCESS
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue, eth_segment
from emu.driver.keys.by_command import indirect_key
from emu.driver.nodes.roce import on_one_segment
from emu.driver.verbs.segments import inline
from emu.driver.world.cable import arrive
from emu.driver.world.clock import HandClock
from layouts.enums.mkey import AccessMode
from layouts.enums.wq import RqState, SqState
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA

pytestmark = pytest.mark.hostile

SIZE = 4096
SECRET = bytes(range(256)) * 16
A_ROUND = POLL_BUDGET + STEPS_PER_ACCESS + RX_BUDGET + 3 * 4 * MAX_SEGMENTS
"""A turn ends after the request that exceeds its share: one large send, looped back."""


class World:
    """A function whose queues get anything, and memory that no key of theirs grants."""

    def __init__(self):
        (self.node,) = on_one_segment(HandClock(), 1)
        node = self.node
        self.hidden = node.region(SIZE, lr=0, lw=0)
        self.hidden.write(SECRET)
        self.region = node.region(4 * SIZE)
        self.read_only = node.region(SIZE, lw=0)
        self.read_only.write(SECRET)
        key, va = self.region.key, self.region.va
        for _ in range(3):
            key = indirect_key(node, AccessMode.KLMS, [(1, key, va + at) for at in range(512)], 512)
            va = 0
        loop = indirect_key(node, AccessMode.KLMS, [(512, key, 0)] * 64, 512 * 64)
        self.places = [
            (self.region.key, self.region.va, 4 * SIZE), (key, 0, 512), (loop, 0, 512 * 64),
            (self.hidden.key, self.hidden.va, SIZE), (self.read_only.key, self.read_only.va, SIZE),
            (0xABCD00, 0, SIZE),
        ]  # fmt: skip
        td = alloc_td(node.driver)
        self.sq = SendQueue(node, tisn=create_tis(node.driver, td))
        self.rqs = [ReceiveQueue(node, log_stride=6) for _ in range(3)]
        flows = Flows(node.driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirs = [
            to_tir(create_direct_tir(node.driver, td, rq.rqn, self_lb_block=3)) for rq in self.rqs
        ]
        flows.entry(table, 0, flows.group(table, 0, 0), *tirs)

    def sge(self, rng):
        key, va, size = self.places[0] if rng.random() < 0.8 else rng.choice(self.places)
        at = rng.choice((0, 0, rng.randrange(size), size - 1))
        sizes = [600, rng.randrange(1, 1500), 64]
        if rng.random() < 0.1:
            sizes = [size - at, 0, 1 << 31 | 9]
        return min(rng.choice(sizes), size - at), key, va + at

    def frame(self, rng):
        packet = EthPacket(
            protocol=rng.choice((TCP, UDP)), version=4, payload=rng.randbytes(rng.randrange(3000))
        )
        data = bytearray(packet.frame())
        for _ in range(rng.choice((0, 0, 0, 1, 4))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = bytes(data)[: rng.choice((len(data), rng.randrange(61, len(data) + 61)))]
        mss = rng.choice((0, 0, 0, 1, 7, 536, 1460, 0xFFFF))
        return Frame(data.ljust(60, b"\0"), mss, rng.random() < 0.5)

    def request(self, rng):
        header = EthPacket(payload=b"").frame()[: 54 if rng.random() < 0.9 else rng.randrange(70)]
        if rng.random() < 0.3:
            header = self.node.mac + header[6:]
        segment = eth_segment(
            cs_flags=rng.choice((0, 0xC0, 0x40, rng.randrange(256))),
            mss=rng.choice((0, 1, 100, 100, 100, 1400, 0xFFFF)), headers=header,
            vlan=5 if rng.random() < 0.1 else None,
        )  # fmt: skip
        segments = [
            inline(rng.randbytes(rng.randrange(40))) if rng.random() < 0.2
            else DATA.pack(*self.sge(rng))
            for _ in range(rng.randrange(1, 6))
        ]  # fmt: skip
        opcode = rng.choice((Opcode.SEND, Opcode.LSO, Opcode.LSO, Opcode.NOP))
        ds = None
        if rng.random() < 0.1:
            opcode, ds = rng.randrange(256), rng.choice((None, rng.randrange(64)))
        self.sq.post(opcode, segment + b"".join(segments), ds=ds, ring=False)

    def step(self, rng):
        what = rng.choice((0, 0, 1, 2, 3))
        if what == 0:
            for _ in range(rng.randrange(1, 8)):
                self.request(rng)
            self.sq.ring_doorbell()
        elif what == 1:
            rq = rng.choice(self.rqs)
            for _ in range(rng.randrange(1, 5)):
                rq.post(*[self.sge(rng) for _ in range(rng.randrange(1, 4))])
        elif what == 2:
            for _ in range(rng.randrange(1, 6)):
                arrive(self.node.hca, self.frame(rng))
        else:
            self.revive()

    def revive(self):
        """Queues that have failed go through RST; what was posted is gone."""
        self.node.settle()
        queues: list[tuple[Any, Any]] = [(self.sq, SqState), *((rq, RqState) for rq in self.rqs)]
        for queue, states in queues:
            if queue.object.state == states.ERR:
                queue.state = states.ERR
                queue.modify(states.RST)
                queue.write_record()
                queue.modify(states.RDY)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_anything_in_the_queues_and_on_the_wire(seed):
    rng, world = random.Random(seed), World()
    costs, most = Costs(world.node), 0
    for _ in range(30):
        world.step(rng)
        most = max(most, costs.most())
        world.node.function.run()
        most = max(most, costs.most())
    world.revive()
    assert not world.node.hca.health.has_failed
    assert max(most, costs.most()) <= A_ROUND
    assert world.hidden.read() == SECRET
    assert world.read_only.read() == SECRET
    rq = world.rqs[0]
    rq.modify(RqState.RST)
    rq.write_record()
    rq.modify(RqState.RDY)
    rq.cq.drain()
    buffers = Buffers(rq)
    frame = MACS + b"\x08\x06" + bytes(46)
    world.node.hca.budget.steps = 0
    arrive(world.node.hca, Frame(frame))
    assert [data for _, data in buffers.drain()] == [frame]
