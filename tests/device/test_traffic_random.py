"""Random requests: whatever stands in a ring, only memory that was granted ever changes."""

from __future__ import annotations

from helpers.channels import QKEY, Channel
from helpers.driver import Driver, FunctionBar
from helpers.verbs import Node
from helpers.world import HandClock, IrqList, Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.fabric.local import LocalFabric
from emu.function import Function
from emu.hca import HcaOptions
from emu.models import MODELS
from firmware_cmds import TABLE
from layouts.enums import Opcode, QpType
from layouts.wqe import ATOMIC, CTRL, DATA, DS, MASKED_ATOMIC, RADDR, WQEBB, XRC, av

SERVICES = (QpType.RC, QpType.UC, QpType.UD, QpType.XRC)
VA, SIZE = 0x5555_0000_0800, 3 * 4096
ATOMICS = (
    Opcode.ATOMIC_CS, Opcode.ATOMIC_FA, Opcode.ATOMIC_MASKED_CS, Opcode.ATOMIC_MASKED_FA
)  # fmt: skip
NAMES = ("everything", "local read", "remote read", "foreign")


class World:
    """A function with one connection, and regions of which only some may be written."""

    def __init__(self, service):
        self.memory, clock = Memory(1 << 20), HandClock()
        self.clock = clock
        function = Function(
            MODELS["connectx6"], HcaOptions(guid=1), TABLE, self.memory, IrqList(), clock,
            LocalFabric(clock),
        )  # fmt: skip
        driver = Driver(FunctionBar(function), self.memory).probe()
        self.node = node = Node(function, driver)
        nothing = {"lr": 0, "lw": 0, "rr": 0, "rw": 0, "a": 0}
        self.regions = {
            "everything": node.region(SIZE, va=VA),
            "local read": node.region(SIZE, va=VA, **nothing | {"lr": 1}),
            "remote read": node.region(SIZE, va=VA, **nothing | {"rr": 1}),
        }
        own, node.pdn = node.pdn, driver.alloc_pd()
        self.regions["foreign"] = node.region(SIZE, va=VA)
        node.pdn = own
        for number, region in enumerate(self.regions.values()):
            region.write(bytes([number + 1]) * SIZE)
        self.channel = Channel(service, node, node)
        self.bystander = Channel(QpType.RC, node, node)

    def granted(self):
        """What the device may write: one region, and the rings of completions and events."""
        region = self.regions["everything"]
        yield from region._pieces(0, SIZE)
        for cq in (self.channel.sender.cq, self.channel.recv_cq, self.channel.receiver.cq):
            yield from ((page, 4096) for page in cq.pages)
        for eq in self.node.driver.eqs.values():
            yield from ((page, 4096) for page in eq.addresses)

    def ungranted_bytes(self):
        """All memory, with zeros where the device may write."""
        ram = bytearray(self.memory.ram)
        for iova, length in self.granted():
            at = iova - self.memory.base
            ram[at : at + length] = bytes(length)
        return ram

    def run(self):
        self.node.settle()
        for _ in range(4):
            self.clock.advance(300_000_000)
            self.node.settle()

    def check_bystander(self):
        target = self.node.region(64)
        self.bystander.post_recv(target.sge())
        self.bystander.send(b"still here")
        self.node.settle()
        assert self.bystander.sent()
        assert target.read(0, 10) == b"still here"


INSIDE = st.sampled_from([0, 8, 4088, 4096, SIZE - 64])
EDGES = st.one_of(
    st.integers(-9, 9),
    st.integers(SIZE - 9, SIZE + 9),
    st.sampled_from([-VA, (1 << 64) - VA - 8, 1 << 40]),
)
SHORT = st.integers(1, 64)
EDGY = st.sampled_from([0, 4096, SIZE, 1 << 30, (1 << 31) - 1])
NUMBERS = st.integers(0, (1 << 64) - 1)


def mostly(usual, other):
    """The usual three times out of four."""
    return st.sampled_from([usual, usual, usual, other]).flatmap(lambda strategy: strategy)


@st.composite
def key_and_address(draw, world, usual="everything"):
    """Mostly a key that is right; else one that forbids it, does not exist, or the wrong variant."""
    region = world.regions[draw(mostly(st.just(usual), st.sampled_from(NAMES)))]
    wrong = st.one_of(st.just(region.key | 1), st.integers(0, 0xFFFFFFFF))
    key = draw(mostly(st.just(region.key), mostly(st.just(region.key), wrong)))
    return key, (region.va + draw(mostly(INSIDE, EDGES))) % (1 << 64)


@st.composite
def data_segment(draw, world):
    key, address = draw(key_and_address(world))
    return DATA.pack(draw(mostly(SHORT, EDGY)), key, address)


@st.composite
def inline_segment(draw):
    data = draw(st.binary(max_size=60))
    announced = draw(mostly(st.just(len(data)), st.integers(0, 0x3FF)))
    segment = (1 << 31 | announced).to_bytes(4, "big") + data
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


@st.composite
def remote_segment(draw, world):
    usual = draw(st.sampled_from(NAMES))
    key, address = draw(key_and_address(world, usual))
    return RADDR.pack(address, key)


@st.composite
def address_vector(draw, world):
    channel = world.channel
    vector = av.new(
        key=draw(mostly(st.just(QKEY), st.sampled_from([0, 1 << 31]))) << 32,
        dqp_dct=draw(mostly(st.just(channel.receiver.qpn), st.sampled_from([0, 1]))) | 1 << 31,
        rlid=draw(mostly(st.just(channel.right.lid), st.sampled_from([0, 0xC000, 0xFFFF]))),
        grh_gid_fl=draw(st.integers(0, 0x7FFFFFFF)),
    )
    return bytes(vector.buf)


ATOMIC_SEGMENT = st.builds(ATOMIC.pack, NUMBERS, NUMBERS)
MASKED_SEGMENT = st.builds(MASKED_ATOMIC.pack, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
SEGMENTS = {
    Opcode.SEND: (), Opcode.SEND_IMM: (), Opcode.SEND_INVAL: (),
    Opcode.RDMA_WRITE: (remote_segment,), Opcode.RDMA_WRITE_IMM: (remote_segment,),
    Opcode.RDMA_READ: (remote_segment,),
    Opcode.ATOMIC_CS: (remote_segment, lambda _: ATOMIC_SEGMENT),
    Opcode.ATOMIC_FA: (remote_segment, lambda _: ATOMIC_SEGMENT),
    Opcode.ATOMIC_MASKED_CS: (remote_segment, lambda _: MASKED_SEGMENT),
    Opcode.ATOMIC_MASKED_FA: (remote_segment, lambda _: MASKED_SEGMENT),
}  # fmt: skip
FRONTS = {
    QpType.UD: address_vector,
    QpType.XRC: lambda world: st.just(XRC.pack(world.channel.srqn)),
}


@st.composite
def proper_body(draw, world, opcode):
    """The segments that the opcode wants, on this service."""
    parts = [draw(FRONTS[world.channel.service](world))] if world.channel.service in FRONTS else []
    parts += [draw(segment(world)) for segment in SEGMENTS[opcode]]
    if opcode in ATOMICS:
        key, address = draw(key_and_address(world))
        return b"".join([*parts, DATA.pack(8, key, address)])
    data = st.one_of(data_segment(world), data_segment(world), inline_segment())
    return b"".join(parts + draw(st.lists(data, min_size=1, max_size=3)))


@st.composite
def mangled_body(draw, world, opcode):
    """Segments with something cut out, put in, or overwritten; or nothing but random bytes."""
    body = bytearray(draw(proper_body(world, opcode)))
    at = draw(st.integers(0, len(body)))
    length = draw(st.integers(0, 32))
    body[at : at + length] = draw(st.binary(max_size=64))
    return draw(st.one_of(st.just(bytes(body)), st.binary(max_size=200)))


@st.composite
def request(draw, world):
    """The bytes of one send request."""
    qp = world.channel.sender
    opcode = draw(st.sampled_from(sorted(SEGMENTS)))
    body = draw(mostly(proper_body(world, opcode), mangled_body(world, opcode)))
    ds = draw(mostly(st.just(1 + -(-len(body) // DS)), st.integers(0, 63)))
    opcode = draw(mostly(st.just(opcode), st.integers(0, 255)))
    flags, imm = draw(st.sampled_from([0, 8, 10])), draw(st.integers(0, 0xFFFFFFFF))
    wqe = CTRL.pack((qp.sent & 0xFFFF) << 8 | opcode, qp.qpn << 8 | ds, flags, imm) + body
    return wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")


def post(qp, wqe):
    for number in range(len(wqe) // WQEBB):
        at = (qp.sent + number) % qp.sq_size * WQEBB
        qp._ring(qp.sq_offset + at, wqe[number * WQEBB :][:WQEBB])
    qp.sent += len(wqe) // WQEBB
    qp.node.memory.write(qp.record + 4, (qp.sent & 0xFFFF).to_bytes(4, "big"))


def fill_receives(data, world):
    """Receive requests of random segments, or of random bytes."""
    one = mostly(data_segment(world), st.binary(min_size=DS, max_size=DS))
    for _ in range(data.draw(st.integers(0, 4), label="receives")):
        world.channel.post_recv()
        body = b"".join(data.draw(st.lists(one, min_size=1, max_size=3), label="list"))
        if world.channel.srqn is None:
            qp = world.channel.receiver
            qp._ring((qp.received - 1) % qp.rq_size * qp.rq_stride, body)
        else:
            srq = world.channel.srq
            srq.node.memory.write(srq._address(srq.posted - 1) + DS, body)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_only_granted_memory_changes(data):
    world = World(data.draw(st.sampled_from(SERVICES), label="service"))
    fill_receives(data, world)
    for _ in range(data.draw(st.integers(1, 4), label="requests")):
        post(world.channel.sender, data.draw(request(world), label="request"))
    before = world.ungranted_bytes()
    world.channel.sender.ring()
    world.run()
    assert world.ungranted_bytes() == before
    world.check_bystander()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_counters_of_the_doorbell_record_may_say_anything(data):
    world = World(data.draw(st.sampled_from(SERVICES), label="service"))
    qp = world.channel.sender
    ring = data.draw(st.binary(min_size=256, max_size=1024), label="ring")
    qp._ring(qp.sq_offset, ring)
    for record in {qp.record, world.channel.receiver.record}:
        words = data.draw(st.binary(min_size=8, max_size=8), label="record")
        world.memory.write(record, words)
    before = world.ungranted_bytes()
    qp.ring()
    world.run()
    assert world.ungranted_bytes() == before
    world.check_bystander()
