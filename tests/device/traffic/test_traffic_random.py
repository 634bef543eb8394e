"""Random requests: whatever stands in a ring, only memory that was granted ever changes.

hypothesis chooses the seeds. Most requests are nearly right, because only those get far enough to
do harm: a key that lacks one right, an address one byte off, a segment too many.
"""

from collections import Counter

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.channels import QKEY, Channel
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import (
    ATOMIC,
    CTRL,
    DATA,
    DS,
    MASKED_ATOMIC,
    MASKED_CS_4,
    MASKED_FA,
    MASKED_FA_4,
    RADDR,
    WQEBB,
    XRC,
    av,
)

pytestmark = pytest.mark.hostile

SERVICES = (QpType.RC, QpType.UC, QpType.UD, QpType.XRC)
VA, SIZE = 0x5555_0000_0800, 3 * 4096
NOTHING = {"lr": 0, "lw": 0, "rr": 0, "rw": 0, "a": 0}
ROUNDS = 20
SEEDS = st.randoms(use_true_random=True)


class World:
    """A function, and regions of which the device may write only the first."""

    def __init__(self):
        self.memory, self.clock = Memory(2 << 20), HandClock()
        function = Function(
            MODELS["connectx6"], HcaOptions(guid=1), TABLE, self.memory, IrqList(), self.clock,
            LocalFabric(self.clock),
        )  # fmt: skip
        driver = Driver(FunctionBar(function), self.memory).probe()
        self.node = node = Node(function, driver)
        self.granted = [
            node.region(SIZE, va=VA),
            node.region(SIZE, va=VA, **NOTHING | {"lw": 1, "lr": 1}),
        ]
        own, node.pdn = node.pdn, driver.alloc_pd()
        foreign = node.region(SIZE, va=VA)
        node.pdn = own
        free = node.region(SIZE, va=VA, free=1)
        refused = [node.region(SIZE, va=VA, **NOTHING | {right: 1}) for right in ("lr", "rr")]
        self.regions = [*self.granted, foreign, free, *refused]
        for number, region in enumerate(self.regions):
            region.write(bytes([number + 1]) * SIZE)
        self.bystander = Channel(QpType.RC, node, node)

    def writable(self, channel):
        """Pieces that the device may write: granted regions, rings of completions and events."""
        for region in self.granted:
            yield from region._pieces(0, SIZE)
        for cq in (channel.sender.cq, channel.recv_cq, channel.receiver.cq):
            yield from ((page, 4096) for page in cq.pages)
        for eq in self.node.driver.eqs.values():
            yield from ((page, 4096) for page in eq.addresses)

    def ungranted(self, channel):
        """All memory, with zeros where the device may write."""
        ram = bytearray(self.memory.ram)
        for iova, length in self.writable(channel):
            at = iova - self.memory.base
            ram[at : at + length] = bytes(length)
        return ram

    def run(self):
        self.node.settle()
        for _ in range(3):
            self.clock.advance(300_000_000)
            self.node.settle()

    def check_bystander(self):
        self.bystander.post_recv(self.granted[0].sge())
        self.bystander.send(b"still here")
        self.node.settle()
        assert self.bystander.sent()
        assert self.granted[0].read(0, 10) == b"still here"

    def close(self, channel):
        """Destroy what a round has made, so that many rounds fit into the memory's tables."""
        channel.receiver.destroy()
        channel.sender.destroy()


class Maker:
    """Requests by a random number generator."""

    def __init__(self, world, channel, rng):
        self.world, self.channel, self.rng = world, channel, rng

    def often(self, usual, other, chance=0.85):
        return usual() if self.rng.random() < chance else other()

    def number(self):
        return self.rng.getrandbits(64)

    def length(self):
        rng = self.rng
        edges = [0, 4096, SIZE, SIZE + 1, 1 << 30, (1 << 31) - 1]
        return self.often(lambda: rng.randint(1, 64), lambda: rng.choice(edges))

    def offset(self, *, aligned=False):
        rng = self.rng
        inside = rng.choice([0, 8, 4088, 4096, SIZE - 8])
        edges = [-8, -1, SIZE - 1, SIZE - 7, SIZE, -VA, (1 << 64) - VA - 8, 1 << 40]
        return self.often(lambda: inside, lambda: rng.choice(edges), 1 if aligned else 0.7)

    def key(self, regions):
        rng = self.rng
        key = rng.choice(regions).key
        return self.often(lambda: key, lambda: rng.choice([key | 1, rng.getrandbits(32), 0x100]))

    def data(self, length=None):
        granted, regions = self.world.granted, self.world.regions
        key = self.often(lambda: self.key(granted), lambda: self.key(regions), 0.7)
        length = self.length() if length is None else length
        return DATA.pack(length, key, (VA + self.offset()) % (1 << 64))

    def inline(self):
        data = self.rng.randbytes(self.rng.randrange(60))
        announced = self.often(lambda: len(data), lambda: self.rng.randrange(0x400))
        segment = (1 << 31 | announced).to_bytes(4, "big") + data
        return segment.ljust(-(-len(segment) // DS) * DS, b"\0")

    def remote(self, *, aligned=False):
        address = (VA + self.offset(aligned=aligned)) % (1 << 64)
        return RADDR.pack(address, self.key(self.world.regions))

    def vector(self):
        channel, rng = self.channel, self.rng
        fields = {
            "key": QKEY << 32, "dqp_dct": channel.receiver.qpn | 1 << 31,
            "rlid": channel.right.lid, "grh_gid_fl": rng.getrandbits(31),
        }  # fmt: skip
        wrong = {"key": 0, "dqp_dct": rng.getrandbits(32), "rlid": rng.getrandbits(16)}
        name = rng.choice(list(wrong))
        return bytes(av.new(**self.often(lambda: fields, lambda: fields | {name: wrong[name]})).buf)

    def body(self, opcode):
        """The segments that the opcode wants, on this service."""
        service, rng = self.channel.service, self.rng
        parts = []
        if service is QpType.UD:
            parts.append(self.vector())
        if service is QpType.XRC:
            srqn = self.channel.srqn
            parts.append(XRC.pack(self.often(lambda: srqn, lambda: rng.getrandbits(24))))
        if opcode in ATOMICS:
            layout, length = ATOMICS[opcode][self.opmod & 1]
            parts += [self.remote(aligned=True), rng.randbytes(layout.size), self.data(length)]
            return b"".join(parts)
        if opcode not in SENDS:
            parts.append(self.remote())
        count = rng.choice([1, 1, 2, 5])
        return b"".join([*parts, *(rng.choice([self.data, self.inline])() for _ in range(count))])

    def mangled(self, opcode):
        """A body with something cut out, put in, or overwritten; or nothing but random bytes."""
        rng = self.rng
        body = bytearray(self.body(opcode))
        at, length = rng.randrange(len(body)), rng.randrange(32)
        body[at : at + length] = rng.randbytes(rng.randrange(64))
        return self.often(lambda: bytes(body), lambda: rng.randbytes(rng.randrange(200)), 0.7)

    def request(self):
        qp, rng = self.channel.sender, self.rng
        opcode = rng.choice(OPCODES[self.channel.service])
        self.opmod = rng.choice([8, 9, 9]) if opcode in MASKED_ATOMICS else 0
        body = self.often(lambda: self.body(opcode), lambda: self.mangled(opcode))
        ds = self.often(lambda: 1 + -(-len(body) // DS), lambda: rng.randrange(64), 0.95)
        opcode = self.often(lambda: opcode, lambda: rng.randrange(256), 0.95)
        word = self.opmod << 24 | (qp.sent & 0xFFFF) << 8 | opcode
        imm = self.often(lambda: rng.choice(self.world.regions).key, lambda: rng.getrandbits(32))
        wqe = CTRL.pack(word, qp.qpn << 8 | ds & 0x3F, rng.choice([0, 8, 10]), imm) + body
        return wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")

    def receive_list(self):
        count = self.rng.choice([1, 2, 3])
        good = b"".join(self.data() for _ in range(count))
        return self.often(lambda: good, lambda: self.rng.randbytes(DS * count))


SENDS = (Opcode.SEND, Opcode.SEND_IMM, Opcode.SEND_INVAL)
ATOMICS = {
    Opcode.ATOMIC_CS: [(ATOMIC, 8)],
    Opcode.ATOMIC_FA: [(ATOMIC, 8)],
    Opcode.ATOMIC_MASKED_CS: [(MASKED_CS_4, 4), (MASKED_ATOMIC, 8)],
    Opcode.ATOMIC_MASKED_FA: [(MASKED_FA_4, 4), (MASKED_FA, 8)],
}
"""Segment and size of the operand, by the lowest bit of opmod."""
MASKED_ATOMICS = (Opcode.ATOMIC_MASKED_CS, Opcode.ATOMIC_MASKED_FA)
WRITES = (Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_IMM)
OPCODES = {
    QpType.RC: (*SENDS, *WRITES, Opcode.RDMA_READ, *ATOMICS),
    QpType.UC: (*SENDS[:2], *WRITES),
    QpType.UD: SENDS[:2],
    QpType.XRC: (*SENDS, *WRITES, Opcode.RDMA_READ, *ATOMICS),
}


def post(qp, wqe):
    for number in range(len(wqe) // WQEBB):
        at = (qp.sent + number) % qp.sq_size * WQEBB
        qp.put(qp.sq_offset + at, wqe[number * WQEBB :][:WQEBB])
    qp.sent += len(wqe) // WQEBB
    qp.node.memory.write(qp.record + 4, (qp.sent & 0xFFFF).to_bytes(4, "big"))


def post_receive(channel, body):
    channel.post_recv()
    if channel.srqn is None:
        qp = channel.receiver
        qp.put((qp.received - 1) % qp.rq_size * qp.rq_stride, body)
    else:
        address = channel.srq._address(channel.srq.posted - 1)
        channel.srq.node.memory.write(address + DS, body)


def one_round(world, rng):
    """A connection, some requests, what it may do and no more. Returns the completions."""
    channel = Channel(rng.choice(SERVICES), world.node, world.node)
    maker = Maker(world, channel, rng)
    for _ in range(rng.randrange(4)):
        post_receive(channel, maker.receive_list())
    for _ in range(rng.choice([1, 1, 2])):
        post(channel.sender, maker.request())
    before = world.ungranted(channel)
    channel.sender.ring()
    world.run()
    assert world.ungranted(channel) == before
    found = channel.sender.cq.drain()
    world.close(channel)
    return found


@settings(max_examples=examples(20), deadline=None)
@given(SEEDS)
def test_only_granted_memory_changes(rng):
    world = World()
    for _ in range(ROUNDS):
        one_round(world, rng)
    world.check_bystander()


def test_the_requests_above_are_worth_it():
    """Enough of them succeed, and enough of them fail for each reason that there is."""
    import random

    rng, results = random.Random(1), Counter()
    for _ in range(5):
        world = World()
        for _ in range(ROUNDS):
            results.update((found.opcode, found.syndrome) for found in one_round(world, rng))
    assert len(results) >= 5
    assert min(results.most_common(5))[1] >= 3


@pytest.mark.parametrize("service", SERVICES)
@settings(max_examples=examples(15), deadline=None)
@given(rng=SEEDS)
def test_rings_and_records_may_hold_anything(service, rng):
    world = World()
    channel = Channel(service, world.node, world.node)
    qp = channel.sender
    qp.put(qp.sq_offset, rng.randbytes(rng.randrange(64, 2048)))
    world.memory.write(qp.record, rng.randbytes(8))
    world.memory.write(channel.receiver.record, rng.randbytes(8))
    before = world.ungranted(channel)
    qp.ring()
    world.run()
    assert world.ungranted(channel) == before
    world.check_bystander()
    world.node.driver.must(Op.DESTROY_QP, qpn=qp.qpn)
