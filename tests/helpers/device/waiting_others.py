"""Pages, events and rules in every state that waits (see ``helpers.device.waiting``)."""

from __future__ import annotations

from emu.device.function.blueflame import BlueFlame
from emu.driver.keys.implicit import ImplicitKey
from emu.driver.keys.paging import PagedRegion
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.dynamic import Initiator, Target
from helpers.device.waiting import case, in_a_round_that_is_over, write
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL

RC, UC, UD, XRC = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
LONG = 9 << 20
FAR = 0x20_0000_0000
MTU = 1024
LATE_MS = 500


# -- pages


def _paged(kind, service, side, operation="send"):
    """``side`` has the absent page: near or far."""

    def make(world):
        getattr(world, kind)()
        pagers = world.pagers()
        channel = Channel(service, *world.nodes)
        near, far = world.left.region(4 * MTU), world.right.region(4 * MTU, va=FAR)
        if side == "near":
            near = PagedRegion(pagers[0], 4 * MTU)
        else:
            far = PagedRegion(pagers[1], 4 * MTU, va=FAR)
        channel.post_recv(far.sge())
        if operation == "send":
            channel.send(near.sge(0, 2 * MTU))
        else:
            getattr(channel, operation)((far.key, far.va), near.sge())
        channel.send(b"behind it")
        world.settle()
        assert sum(len(node.hca.page_faults) for node in world.nodes) == 1

    name = f"absent_{side}_{operation}_{service.name}_{kind}"
    make.__name__ = name
    return case(make)


for _kind in ("local", "packets"):
    for _side in ("near", "far"):
        for _operation in ("send", "write", "read"):
            _paged(_kind, RC, _side, _operation)
        _paged(_kind, XRC, _side)
    _paged(_kind, UD, "near")


def _paged_target(side, operation):
    def make(world):
        target = Target(world.local().right)
        pagers = world.pagers()
        initiator = Initiator(world.left, target)
        near, far = world.left.region(4096), world.right.region(4096, va=FAR)
        if side == "near":
            near = PagedRegion(pagers[0], 4096)
        else:
            far = PagedRegion(pagers[1], 4096, va=FAR)
        target.srq.post(far.sge())
        if operation == "send":
            initiator.send(near.sge())
        else:
            getattr(initiator, operation)((far.key, far.va), near.sge())
        world.settle()
        assert sum(len(node.hca.page_faults) for node in world.nodes) == 1
        world.target, world.initiator, world.pager = target, initiator, pagers[1]

    make.__name__ = f"absent_{side}_{operation}_of_a_target"
    return case(make)


for _side in ("near", "far"):
    for _operation in ("send", "write", "read"):
        _paged_target(_side, _operation)


@case
def absent_page_behind_an_implicit_key(world):
    pagers = world.local().pagers()
    channel = Channel(RC, *world.nodes)
    implicit = ImplicitKey(pagers[1])
    channel.write((implicit.key, 4096), b"hello")
    world.settle()
    assert len(world.right.hca.page_faults) == 1


@case
def absent_page_of_a_shared_request(world):
    pagers = world.local().pagers()
    srq = world.right.shared_queue()
    one, two = world.left.queue_pair(), world.right.queue_pair(srq=srq)
    connect(one, two)
    srq.post(PagedRegion(pagers[1], 4096).sge())
    one.send(b"hello")
    world.settle()
    assert len(world.right.hca.page_faults) == 1


@case
def page_faults_that_nobody_is_told_of(world):
    pagers = world.local().pagers(log_size=0)
    absent = PagedRegion(pagers[1], 4096)
    for _ in range(3):
        Channel(RC, *world.nodes).write((absent.key, absent.va), b"hello")
        world.right.driver.bar.settle()
    assert world.right.hca.page_faults.unreported


@case
def page_faults_in_half_a_long_message(world):
    pagers = world.local().pagers()
    channel = Channel(RC, *world.nodes)
    absent = PagedRegion(pagers[1], LONG, va=FAR)
    absent.bring_in(*range(512))
    write(channel, world.left.region(LONG), absent)
    world.settle()
    assert len(world.right.hca.page_faults) == 1


# -- events, commands


@case
def event_that_moderation_holds_back(world):
    world.local()
    for node in world.nodes:
        cq = node.completion_queue(cq_period=4000, cq_max_count=50)
        one, two = node.queue_pair(cq=cq), node.queue_pair()
        connect(one, two)
        two.post_recv(node.region(64).sge())
        cq.arm()
        one.send(b"hello")
    world.settle()


@case
def interrupt_that_moderation_holds_back(world):
    world.local()
    for node in world.nodes:
        driver = node.driver
        driver.must(Op.CONFIG_INT_MODERATION, min_delay=4000, int_vector=7)
        commands = driver.use_events(vector=7)
        for _ in range(3):
            driver.must(Op.QUERY_ADAPTER)
            commands.drain()
        assert node.hca.events.vector_moderation[7].timer is not None


@case
def broken_cq_whose_queues_are_being_stopped(world):
    channel = Channel(RC, *world.local().nodes)
    for node, cq in ((world.left, channel.sender.cq), (world.right, channel.recv_cq)):
        node.hca.scheduler.add_broken(node.hca.cqs.get(cq.cqn))


@case
def member_of_a_multicast_group(world):
    channel = Channel(UD, *world.local().nodes)
    for qp in (channel.sender, channel.receiver):
        gid = bytes.fromhex("ff12") + bytes(14)
        qp.node.driver.must(Op.ATTACH_TO_MCG, qpn=qp.qpn, multicast_gid=gid)


@case
def copy_of_a_request_that_is_not_whole(world):
    for node in world.local().nodes:
        begun = CTRL.pack(Opcode.NOP, node.queue_pair().qpn << 8 | 4, 0, 0)
        copies = BlueFlame(node.hca, lambda *_: None)
        assert copies.take(node.hca.uars.get(node.driver.uar), node.driver.uar, 0x800, begun)


# -- fault rules


def _under_a_rule(name, text, number=0):
    def make(world):
        world.local().rule(text, number)
        channel = Channel(RC, *world.nodes)
        channel.post_recv(world.right.region(64).sge())
        channel.sender.cq.arm()
        channel.send(b"hello")
        world.settle()

    make.__name__ = f"rule_{name}"
    return case(make)


for _point, _match in (
    ("cqe", ""), ("eqe", ""), ("irq", ""), ("pkt.tx", ""), ("pkt.rx", ""),
    ("doorbell", 'match.kind="send"'),
):  # fmt: skip
    for _number in range(2):
        _under_a_rule(
            f"delays_{_point}_{_number}",
            f'point="{_point}"\naction="delay"\nms={LATE_MS}\n{_match}', _number,
        )  # fmt: skip
_under_a_rule("reorders_eqe", 'point="eqe"\naction="reorder"')
_under_a_rule("pulls_the_cable", f'point="cqe"\naction="link"\nup=false\nms={LATE_MS}\nindex=1')
_under_a_rule("restarts", f'point="cqe"\naction="restart"\nms={LATE_MS}\nindex=1')
_under_a_rule("wants_pages", 'point="cqe"\naction="pages"\ncount=3\nstarve=true\nindex=1')


def _page_fault_held_by_a_rule(point):
    def make(world):
        world.local().rule(f'point="{point}"\naction="delay"\nms={LATE_MS}', 1)
        pagers = world.pagers()
        channel = Channel(RC, *world.nodes)
        absent = PagedRegion(pagers[1], 4096)
        channel.write((absent.key, absent.va), b"hello")
        for event in pagers[1].faults():
            pagers[1].must_resume(event)
        world.settle()

    make.__name__ = f"rule_delays_{point}"
    return case(make)


for _point in ("page_fault", "page_fault.resume"):
    _page_fault_held_by_a_rule(_point)


# -- a trace


@case
def pages_and_answers_in_a_trace(world):
    world.local().trace()
    pagers = world.pagers()
    absent = PagedRegion(pagers[1], 4096)
    Channel(RC, *world.nodes).write((absent.key, absent.va), b"hello")
    Channel(RC, *world.nodes).send(b"hello")
    world.settle()


# -- the next round


@case
def datagram_for_the_next_round(world):
    channel = Channel(UD, *world.local().nodes)
    channel.post_recv(world.right.region(4096).sge())
    channel.send(b"hello")
    in_a_round_that_is_over(world)
