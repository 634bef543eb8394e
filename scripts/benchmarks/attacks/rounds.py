"""Hostile use of resources that the functions of a process share: frames for many, links,
timers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial

from attacks.eth import post_large
from attacks.guest import SLOTS, Guest
from attacks.watch import Watch, WatchedLoop, check_arrived, pattern, probed
from emu.device.engine.eth import receive
from emu.device.faults.link import PlannedLink
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.objects.ledger import Ledger
from emu.device.objects.object import Object
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.driver.command.resource_dump import access_once
from emu.driver.ethernet.flow_fields import add_to_field, context_fields, set_field, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.roce import RoceNode
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.node import Node
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.ib.local import LocalFabric
from emu.server.net.link.direction import LinkDirection
from emu.server.service.pcap import Capture, PcapOptions
from firmware_cmds.regs.dump_sources import SOURCES
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.modify_header import ModifyField
from layouts.enums.qp import QpType
from layouts.enums.regs import RegId
from layouts.regs.resource_dump import resource_dump

MODEL_ETH = LINKS["connectx6"][PortType.ETH]
ALL_SLICES = next(kind for kind, source in SOURCES.items() if source.name == "SX_SLICE_ALL")
DUMPED = range(1 << 20, (1 << 20) + 200_000)
GROUP_MAC = bytes.fromhex("01005e000001")
LARGE_BYTES = 60000
CHANGES = 30
MILLISECOND = 1_000_000
QUEUES = 64
MANY = 100_000


def _ledger(function: Function) -> Ledger:
    return function.hca.ledger


class Segment:
    """Functions on one segment; all but the first receive every frame, into queues of their own."""

    def __init__(self, watch: Watch, count: int, *, queues: int = 1, changes: int = 0) -> None:
        """Create the functions.

        ``changes`` are made to the headers of each frame for each of the queues.
        """
        self.watch, self.loop = watch, WatchedLoop(watch)
        self.switch = SegmentSwitch(self.loop)
        self.ports = [FunctionPort(f"function {number}", self.switch) for number in range(count)]
        self.nodes = []
        for guid, port in enumerate(self.ports, 1):
            wire = LocalFabric(self.loop)
            made = probed(watch, MODEL_ETH, guid, self.loop, wire, ram=16 << 20, eth_wire=port)
            self.nodes.append(Node(*made))
        self.functions = [node.function for node in self.nodes]
        driver = self.nodes[0].driver
        self.sq = SendQueue(self.nodes[0], log_size=10, tisn=create_tis(driver, alloc_td(driver)))
        for node in self.nodes[1:]:
            receive_all(node, queues, changes)

    def send_large(self, to: bytes, count: int) -> None:
        """Post large sends with the maximum number of packets."""
        mss = -(-LARGE_BYTES // MAX_SEGMENTS)
        post_large(self.sq, count, self.nodes[0].region(LARGE_BYTES).sge(), mss=mss, to=to)

    def run(self, ms: int = 0) -> None:
        """Ring the doorbell, and run for ``ms`` milliseconds."""
        self.sq.ring_doorbell()
        self.loop.run()
        for _ in range(ms):
            self.loop.run(MILLISECOND)

    def link(self, **properties: object) -> None:
        """Put the same link into both directions of each port."""
        link = PlannedLink.model_validate(properties)
        for number, (port, function) in enumerate(zip(self.ports, self.functions)):
            for name in ("tx", "rx"):
                way = LinkDirection(f"{number} {name}", self.loop, partial(_ledger, function), link)
                setattr(port, f"{name}_link", way)

    def check(self, least: int) -> None:
        """Raise RuntimeError unless ``least`` packets have arrived at each function."""
        check_arrived(self.functions[1:], least)


def roce_nodes(watch: Watch, loop: WatchedLoop) -> list[RoceNode]:
    """Return two functions with RoCE on a segment of their own."""
    switch, model = SegmentSwitch(loop), LINKS["connectx6dx"][PortType.ETH]
    ports = [FunctionPort(f"function {number}", switch) for number in range(2)]
    return [
        RoceNode(*probed(watch, model, guid, loop, LocalFabric(loop), eth_wire=port))
        for guid, port in enumerate(ports, 0x10)
    ]


def receive_all(node: Node, queues: int, changes: int) -> list[ReceiveQueue]:
    """Forward every frame to each of the queues, whose rings are full of requests.

    Return the queues.
    """
    driver, flows = node.driver, Flows(node.driver)
    region, td = node.region(2048), alloc_td(node.driver)
    modify = 0
    if changes:
        actions = [
            add_to_field(ModifyField.OUT_IP_TTL, 1),
            set_field(ModifyField.OUT_SIPV4, 0x0A000001, 32),
            set_field(ModifyField.OUT_UDP_DPORT, 53, 16),
        ]
        fields = context_fields(*(actions * changes)[:changes])
        modify = driver.must(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields).modify_header_id
    log_size = 12 if queues == 1 else 8
    rqs = [
        ReceiveQueue(node, log_size=log_size, cq=node.completion_queue(log_size))
        for _ in range(queues)
    ]
    tirs = [to_tir(create_direct_tir(driver, td, rq.rqn)) for rq in rqs]
    table = flows.table(1)
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs, modify=modify)
    flows.set_root(table)
    for rq in rqs:
        for _ in range(rq.size):
            rq.post((2048, region.key, region.va), update_record=False)
        rq.write_record()
    return rqs


def refill(rqs: Iterable[ReceiveQueue]) -> None:
    """Consume all completions of the queues, and post their WQEs, which stay the same, again."""
    for rq in rqs:
        cq = rq.cq
        cq.ci = cq.node.hca.cqs.need(cq.cqn).pi
        cq.write_record()
        rq.posted = cq.ci + rq.size
        rq.write_record()


def _multicast(count: int) -> None:
    @pattern(f"large sends of {MAX_SEGMENTS} packets each, to {count} functions")
    def large_to_many(watch: Watch) -> Iterator[None]:
        segment = Segment(watch, count + 1)
        segment.send_large(GROUP_MAC, 2)
        yield
        segment.run()
        segment.check(2 * LARGE_BYTES // 30)


for _count in (4, 8, 16, 64):
    _multicast(_count)


@pattern(f"large sends to 16 functions, each of which changes {CHANGES} fields")
def rewritten(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 17, changes=CHANGES)
    segment.send_large(GROUP_MAC, 2)
    yield
    segment.run()
    segment.check(2 * LARGE_BYTES // 30)


@pattern(f"large sends to a function that changes {CHANGES} fields for {CHANGES} queues")
def rewritten_copies(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 2, queues=CHANGES, changes=CHANGES)
    segment.send_large(GROUP_MAC, 4)
    yield
    segment.run()


@pattern("frames to an unknown address, flooded to 64 functions with 16 queues each")
def flooded(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 65, queues=16)
    frame = bytes.fromhex("020000000099") + EthPacket().frame()[6:]
    for _ in range(512):
        segment.sq.send(frame, ring=False, flags=0)
    yield
    segment.run()
    segment.check(512)


@pattern("large sends to 16 functions behind links that duplicate and corrupt")
def linked(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 17)
    segment.link(duplicate=50, corrupt=50, delay="1ms", limit=100_000)
    segment.send_large(GROUP_MAC, 2)
    yield
    segment.run(10)


@pattern("30,000 packets of links that come due at once")
def due_at_once(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 16)
    segment.link(delay="1ms", limit=100_000)
    frame = Frame(GROUP_MAC + EthPacket().frame()[6:])
    source = segment.functions[0].hca
    for _ in range(2000):
        segment.loop.budget.begin()
        segment.ports[0].transmit(source, frame)
    yield
    segment.run(10)


@pattern(f"{MANY} timers that come due at once")
def timers(watch: Watch) -> Iterator[None]:
    loop = WatchedLoop(watch)
    done: list[int] = []
    for number in range(MANY):
        loop.call_later(MILLISECOND, partial(done.append, number))
    yield
    loop.run(MILLISECOND)
    if done != list(range(MANY)):
        raise RuntimeError("the calls have not been made in order")


@pattern("512 congestion notifications, each for another queue pair")
def notices(watch: Watch) -> Iterator[None]:
    loop = WatchedLoop(watch)
    nodes = roce_nodes(watch, loop)
    frames = []
    for _ in range(512):
        channel = Channel(QpType.RC, *nodes)
        receiver = nodes[1].hca.qps.need(channel.receiver.qpn)
        path = receiver.ctx.primary_address_path
        frames.append(Frame(nodes[1].hca.roce.notification(path, channel.sender.qpn)))
    hca = nodes[0].hca

    def arrive() -> None:
        loop.budget.begin()
        for frame in frames:
            receive.arrive(hca, frame)

    yield
    for _ in range(4):
        watch.round(arrive)
        loop.run(1_000 * MILLISECOND)
    if hca.roce.congestion.counts["rp_cnp_handled"] != 4 * len(frames):
        raise RuntimeError("notifications have been lost")


@pattern("RESOURCE_DUMP of all send queues, with 200,000 queue pairs")
def dumped(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 512 << 20)
    table = _with_many_queues(guest)
    region = guest.node.region(1 << 16)
    yield
    opaque = 0
    while True:
        reg = access_once(
            guest.driver, ALL_SLICES, op_mod=0, mkey=region.key, address=region.va,
            size=1 << 16, device_opaque=opaque, num_of_obj1=1,
        )  # fmt: skip
        opaque = reg.device_opaque
        if not reg.more_dump:
            break
    for number in DUMPED:
        del table[number]


@pattern("RESOURCE_DUMPs of all send queues, each of them begun anew, in eight slots")
def dumped_anew(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 512 << 20)
    table = _with_many_queues(guest)
    region = guest.node.region(1 << 16)
    reg = bytes(
        resource_dump.new(
            segment_type=ALL_SLICES, mkey=region.key, address=region.va, size=4, num_of_obj1=1
        )
    )
    fields = {"op_mod": 0, "register_id": RegId.RESOURCE_DUMP}
    sent = guest.submit(Op.ACCESS_REG, reg, out_extra=len(reg), **fields)
    guest.copy_slot(SLOTS)
    yield
    guest.ring(SLOTS)
    guest.collect(sent)
    for number in DUMPED:
        del table[number]


def _with_many_queues(guest: Guest) -> dict[int, Object]:
    """Add the numbers of DUMPED to the function's queues; return them all, by number."""
    qp = guest.node.queue_pair()
    table = guest.function.hca.queues.holders
    table |= dict.fromkeys(DUMPED, table[qp.qpn])
    return table


@pattern("a capture into a pipe that nobody reads")
def slow_pipe(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 17)
    path = watch.sockets() / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fabric = LocalFabric(segment.loop)
    names = [f"function {index}" for index in range(len(segment.functions))]
    Capture(PcapOptions(path), segment.loop, segment.functions, segment.ports, fabric, names)
    segment.send_large(GROUP_MAC, 64)
    yield
    segment.run(2_000)
    os.close(reader)
