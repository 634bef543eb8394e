"""Messages, timers and packets in every state in which they wait (``helpers.device.waiting``)."""

from __future__ import annotations

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.dynamic import Initiator, Target
from emu.driver.verbs.tag_queue import request
from helpers.device.tags import TaggedEnds
from helpers.device.waiting import case, write
from layouts.enums.qp import QpType
from layouts.enums.regs import RegId
from layouts.regs.roce_accl import roce_accl_reg

RC, UC, UD, XRC = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
MIB = 1 << 20
LONG = 9 * MIB
FAR = 0x20_0000_0000
MTU = 1024


def be_selective(node):
    """Selective repeat for all queue pairs to come (register ROCE_ACCL)."""
    on = {"selective_repeat_forced_en_field_select": 1, "selective_repeat_forced_en": 1}
    answer = node.driver.write_register(RegId.ROCE_ACCL, bytes(roce_accl_reg.new(**on).buf))
    assert not answer.status


# -- timers of connected services


@case
def answer_is_late(world):
    world.packets()
    world.wire.tap = lambda _: []
    channel = Channel(RC, *world.nodes)
    write(channel, world.left.region(4096), world.right.region(4096))
    world.settle()


@case
def rendezvous_waits_for_its_data(world):
    tagged = TaggedEnds(*world.packets().nodes)
    tagged.queue.add(tagged.target.sge(0, 5000), tag=3)
    tagged.settle()
    tagged.sender.send(request(3, tagged.source.va, tagged.source.key, 5000), ring=False)
    world.wire.tap = lambda frame: [] if len(frame) > MTU else [frame]
    tagged.sender.ring()
    world.settle()


@case
def rendezvous_waits_for_its_peer(world):
    tagged = TaggedEnds(*world.local().nodes)
    tagged.queue.add(tagged.target.sge(0, 5000), tag=3)
    tagged.settle()
    tagged.sender.send(request(3, tagged.source.va, tagged.source.key, 5000))
    world.settle()


@case
def peer_is_not_ready(world):
    Channel(RC, *world.local().nodes).send(b"hello")
    world.settle()


@case
def peer_is_not_ready_in_packets(world):
    Channel(RC, *world.packets().nodes).send(b"hello")
    world.settle()


@case
def peer_is_silent(world):
    channel = Channel(RC, *world.local().nodes)
    channel.receiver.to_reset()
    channel.send(b"hello")
    world.settle()


@case
def in_error_and_looking_for_receives(world):
    channel = Channel(RC, *world.local().nodes)
    channel.sender.to_error()
    channel.receiver.to_error()
    world.settle()


@case
def in_error_and_seldom_looked_at(world):
    in_error_and_looking_for_receives(world)
    for _ in range(12):
        world.clock.advance(1_000_000_000)
        world.settle()


@case
def work_that_had_no_turn_yet(world):
    channel = Channel(RC, *world.local().nodes)
    channel.post_recv(world.right.region(4096).sge())
    channel.send(b"hello")


# -- messages under way


def _half_moved(operation, service=RC):
    def make(world):
        channel = Channel(service, *world.local().nodes)
        source, target = world.left.region(LONG), world.right.region(LONG, va=FAR)
        channel.post_recv(target.sge())
        if operation == "send":
            channel.send(source.sge())
        elif operation == "immediate":
            write(channel, source, target, imm=7)
        else:
            getattr(channel, operation)((target.key, target.va), source.sge())
        world.left.function.run()
        assert world.left.hca.qps.get(channel.sender.qpn).moving is not None

    make.__name__ = f"half_moved_{operation}_{service.name}"
    return case(make)


for _operation in ("send", "write", "read", "immediate"):
    for _service in (RC, XRC):
        _half_moved(_operation, _service)
_half_moved("send", UC)


@case
def half_moved_to_a_shared_queue(world):
    world.local()
    srq = world.right.shared_queue()
    one, two = world.left.queue_pair(), world.right.queue_pair(srq=srq)
    connect(one, two)
    srq.post(world.right.region(LONG).sge())
    one.send(world.left.region(LONG).sge())
    world.left.function.run()


def _half_moved_to_a_target(operation):
    def make(world):
        target = Target(world.local().right)
        initiator = Initiator(world.left, target)
        source, place = world.left.region(LONG), world.right.region(LONG, va=FAR)
        target.srq.post(place.sge())
        if operation == "send":
            initiator.send(source.sge())
        else:
            getattr(initiator, operation)((place.key, place.va), source.sge())
        world.left.function.run()
        assert world.left.hca.qps.get(initiator.qpn).moving is not None

    make.__name__ = f"half_moved_{operation}_to_a_target"
    return case(make)


for _operation in ("send", "write", "read"):
    _half_moved_to_a_target(_operation)


def _last_packet_waits(service):
    """All but the last packet of a WRITE is in place; that finds no receive request."""

    def make(world):
        channel = Channel(service, *world.local().nodes, mtu=3)
        source, target = world.left.region(4096), world.right.region(4096, va=FAR)
        write(channel, source, target, imm=7)
        world.settle()
        assert world.left.hca.qps.get(channel.sender.qpn).moving is not None

    make.__name__ = f"last_packet_waits_{service.name}"
    return case(make)


for _service in (RC, XRC):
    _last_packet_waits(_service)


@case
def last_packet_waits_for_a_target(world):
    target = Target(world.local().right, mtu=3)
    initiator = Initiator(world.left, target)
    source, place = world.left.region(4096), world.right.region(4096, va=FAR)
    initiator.write((place.key, place.va), source.sge(), imm=7)
    world.left.settle()
    assert world.left.hca.qps.get(initiator.qpn).moving is not None


def _half_arrived(service, operation="send"):
    """The rest of its packets is still on the wire."""

    def make(world):
        channel = Channel(service, *world.packets().nodes)
        source, target = world.left.region(8 * MTU), world.right.region(8 * MTU, va=FAR)
        channel.post_recv(target.sge())
        world.wire.deliver = lambda: False
        if operation == "send":
            channel.send(source.sge())
        else:
            getattr(channel, operation)((target.key, target.va), source.sge())
        world.left.function.run()
        del world.wire.deliver
        for _ in range(3):
            world.wire.deliver()
        world.right.function.run()

    make.__name__ = f"half_arrived_{operation}_{service.name}"
    return case(make)


for _service in (RC, UC, XRC):
    _half_arrived(_service)
_half_arrived(RC, "write")
_half_arrived(RC, "read")


@case
def packets_that_came_early(world):
    world.cable()
    for node in world.nodes:
        be_selective(node)
    lost = iter([False, True])
    world.left.hca.eth_wire.tap = lambda frame: [] if next(lost, False) else [frame]
    channel = Channel(RC, *world.nodes, mtu=3)
    write(channel, world.left.region(20 * MTU), world.right.region(20 * MTU, va=FAR))
    world.left.function.run()
    world.left.hca.eth_wire.poll()


# -- room on the wire, links, congestion


@case
def wire_without_room(world):
    world.packets().wire.room = 0
    channel = Channel(RC, *world.nodes)
    write(channel, world.left.region(LONG), world.right.region(LONG, va=FAR))
    world.left.function.run()
    assert world.wire._waiting


@case
def cable_without_room(world):
    world.cable()
    for wire in world.others:
        wire.room = 0
    channel = Channel(RC, *world.nodes)
    write(channel, world.left.region(LONG), world.right.region(LONG, va=FAR))
    for _ in range(3):
        world.left.function.run()
        world.clock.advance(0)


@case
def frames_to_itself(world):
    world.segment().rule('point="pkt.tx"\naction="drop"\nmatch.qpn=1')
    channel = Channel(RC, world.left, world.left)
    write(channel, world.left.region(MIB), world.left.region(MIB, va=FAR))
    world.left.function.run()


def _on_a_link(kind, service, **link):
    def make(world):
        getattr(world, kind)()
        world.linked(**link)
        channel = Channel(service, *world.nodes)
        channel.post_recv(world.right.region(64 << 10).sge())
        for _ in range(4):
            channel.send(world.left.region(2048).sge())
        if service is RC:
            write(channel, world.left.region(MIB), world.right.region(MIB, va=FAR))
        world.left.function.run()
        world.settle()

    name = "_".join(map(str, (*link, service.name, kind)))
    make.__name__ = f"link_with_{name}"
    return case(make)


for _kind in ("local", "segment"):
    for _service in (RC, UD):
        _on_a_link(_kind, _service, delay="50ms", direction="tx")
        _on_a_link(_kind, _service, delay="50ms", direction="rx", limit=64)
    _on_a_link(_kind, RC, limit=4, rate="1mbit", delay="20ms")


@case
def queue_pair_that_keeps_to_a_rate(world):
    world.segment().linked(mark=100, direction="tx")
    channel = Channel(RC, *world.nodes, mtu=3)
    write(channel, world.left.region(MIB), world.right.region(MIB, va=FAR))
    for _ in range(20):
        world.clock.advance(100_000)
        world.settle()
    connection = world.left.hca.qps.get(channel.sender.qpn).connection
    assert connection.rate is not None
