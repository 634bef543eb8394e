"""Objects that are destroyed while a message that names them is under way.

An XRC message names its shared queue by number. The queue pair that receives it refers to another
one (hw/qp.c: create_xrc_tgt_qp), so a driver may destroy the queue, and then its CQ, at any time.
What it has got back, the device must not write to any more.
"""

from typing import Any, cast

import pytest

from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

PAGE = 4096
MTU = 1024
IMM = 0x11223344
MESSAGE = bytes(range(250)) * 12  # three packets
LATE = 10_000_000_000


class Target:
    """An XRC channel into a shared queue that nothing refers to, with a CQ of its own."""

    def __init__(self, left, right):
        self.node = right
        self.channel = Channel(QpType.XRC, left, right, retry_count=0, rnr_retry=0)
        self.domain = right.hca.srqs.get(self.channel.srqn).xrcd.handle
        self.cq, self.srq = self.another()
        self.channel.srqn = self.srq.srqn

    def another(self):
        cq = self.node.completion_queue()
        return cq, SharedQueue(self.node, xrcd=self.domain, cq=cq)

    @property
    def receiver(self):
        return self.channel.receiver

    def destroy(self):
        """As the driver does: the queue, then its CQ, whose pages it has for itself then."""
        self.node.driver.must(Op.DESTROY_XRC_SRQ, xrc_srqn=self.srq.srqn)
        self.node.driver.must(Op.DESTROY_CQ, cqn=self.cq.cqn)
        for page in self.cq.pages:
            self.node.memory.write(page, b"\xa5" * PAGE)

    def is_untouched(self):
        read = self.node.memory.read
        return all(read(page, PAGE) == b"\xa5" * PAGE for page in self.cq.pages)


@pytest.fixture
def target(packet_pair):
    return Target(*packet_pair)


@pytest.fixture
def source(target):
    region = target.channel.left.region(PAGE)
    region.write(MESSAGE)
    return region


@pytest.fixture
def room(target):
    return target.node.region(PAGE)


@pytest.fixture
def begun(target, source, room, packet_wire):
    """Starts a message and lets its first packet through; the rest comes when it is called for."""
    caught = []

    def begin(**options):
        target.srq.post(room.sge())
        packet_wire.tap = lambda frame: caught.append(frame) or []
        target.channel.send(source.sge(0, len(MESSAGE)), **options)
        target.node.settle()
        packet_wire.tap = lambda frame: [frame]
        assert len(caught) == 3
        packet_wire.arrive(caught.pop(0))
        assert room.read(0, MTU) == MESSAGE[:MTU]

    def rest():
        packet_wire.frames.extend(caught)
        packet_wire.settle()

    cast(Any, begin).rest = rest
    return begin


@pytest.mark.parametrize("options", [{}, {"imm": IMM}], ids=["send", "immediate"])
def test_last_packet_comes_after_the_queue_has_gone(target, begun, room, options):
    """The rest is refused as a message to no queue, and nothing of it is placed."""
    begun(**options)
    target.destroy()
    begun.rest()
    assert target.is_untouched()
    assert not any(room.read(MTU))
    assert target.receiver.state == QpState.ERR
    (failed,) = target.channel.sender.cq.drain()
    assert failed.syndrome == CqeSyndrome.REMOTE_INVAL_REQ_ERR


def to_error(target):
    target.receiver.to_error()


def to_reset(target):
    target.receiver.to_reset()


def destroy(target):
    target.receiver.destroy()


@pytest.mark.parametrize("end", [to_error, to_reset, destroy])
def test_queue_pair_stops_after_the_queue_has_gone(target, begun, clock, end):
    begun()
    target.destroy()
    end(target)
    begun.rest()
    clock.advance(LATE)
    target.node.settle()
    assert target.is_untouched()


class TestNumberOfAnotherQueue:
    """Few numbers: the next queue gets the one that the message names."""

    @pytest.fixture
    def limits(self):
        return {"log_max_srq": 2}

    @pytest.fixture
    def other(self, target, begun):
        """What is there instead, with a request in it: (its CQ, itself)."""
        spare = SharedQueue(target.node)  # the last number that was not given yet
        begun(imm=IMM)
        target.destroy()
        cq, srq = target.another()
        assert srq.srqn == target.srq.srqn
        srq.post(target.node.region(PAGE).sge())
        assert spare.srqn != srq.srqn
        return cq, srq

    def test_rest_of_the_message_is_refused(self, target, other, begun):
        cq, srq = other
        begun.rest()
        assert target.is_untouched()
        assert cq.drain() == []
        assert target.node.hca.srqs.get(srq.srqn).queue.posted() == 1
        assert target.receiver.state == QpState.ERR

    @pytest.mark.parametrize("end", [to_reset, destroy])
    def test_no_request_comes_back_to_it(self, target, other, begun, end):
        """What a message leaves unfilled goes back to the queue that it came from, or nowhere."""
        _, srq = other
        end(target)
        begun.rest()
        assert target.node.hca.srqs.get(srq.srqn).queue.posted() == 1


class TestWaitingForAPage:
    """The message waits for a page of its receive request when its queue goes."""

    @pytest.fixture(params=["one function", "packets"])
    def target(self, request):
        if request.param == "packets":
            return Target(*request.getfixturevalue("packet_pair"))
        node = request.getfixturevalue("node")
        return Target(node, node)

    @pytest.fixture
    def pager(self, target):
        return Pager(target.node)

    @pytest.fixture
    def room(self, target, pager):
        return PagedRegion(pager, PAGE)

    @pytest.fixture
    def fault(self, target, pager, source, room):
        target.srq.post(room.sge())
        target.channel.send(source.sge(0, len(MESSAGE)))
        return pager.fault()

    @pytest.mark.parametrize("is_there", [True, False], ids=["page comes", "driver gives up"])
    def test_queue_goes_and_the_driver_resumes(self, target, pager, room, fault, is_there):
        target.destroy()
        if is_there:
            room.bring_in()
        pager.must_resume(fault, error=not is_there)
        target.node.settle()
        assert target.is_untouched()
        assert target.receiver.state == QpState.ERR
        (failed,) = target.channel.sender.cq.drain()
        assert failed.opcode == CqeOpcode.REQ_ERR

    @pytest.mark.parametrize("end", [to_error, to_reset, destroy])
    def test_queue_goes_and_the_queue_pair_stops(self, target, pager, room, fault, clock, end):
        target.destroy()
        end(target)
        room.bring_in()
        assert pager.resume(fault) == Status.OK
        clock.advance(LATE)
        target.node.settle()
        assert target.is_untouched()


def test_queue_that_its_queue_pair_refers_to(target):
    """A target queue pair holds on to the queue that it was created with."""
    answer = target.node.driver.command(Op.DESTROY_XRC_SRQ, xrc_srqn=target.channel.srq.srqn)
    assert answer.status == Status.BAD_RES_STATE_ERR
