"""Rules about page faults, in both schemes: what the driver is told, and what its resume does."""

from __future__ import annotations

import pytest
from helpers.device.paging import IN_BOTH_SCHEMES

from emu.device.faults.injector import Injector
from emu.device.faults.parser import PlanError, load
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

MS = 1_000_000
SIZE = 2 * 4096


pytestmark = [pytest.mark.usefixtures("scheme"), IN_BOTH_SCHEMES]


@pytest.fixture
def channel(ends):
    channel = Channel(QpType.RC, *ends)
    channel.post_recv(channel.right.region(SIZE, va=0x3000_0000_0000).sge())
    return channel


@pytest.fixture
def pager(channel):
    return Pager(channel.left)


@pytest.fixture
def source(channel, pager):
    return PagedRegion(pager, SIZE, va=0x1000_0000_0000)


@pytest.fixture
def fired():
    return []


@pytest.fixture
def plan(channel, fired):
    """Loads a rule, given by its lines, at the sender."""
    function = channel.left.function
    injector = Injector(function, sink=fired.append)
    function.use_faults(injector)

    def load_it(text):
        injector.load(load(f"[[rule]]\n{text}"))
        return injector

    return load_it


def fault(channel, source, pager):
    """A send from an absent page; the event that it makes."""
    channel.send(source.sge(0, 100))
    return pager.faults()


def test_event_lost_and_the_request_waits(channel, pager, source, plan, fired):
    plan('point="page_fault"\naction="drop"\nmatch.kind="SEND_OR_WRITE"\nmatch.side="REQUESTER"')
    assert fault(channel, source, pager) == []
    source.bring_in()
    assert channel.sent() == []
    assert fired[0].event == {"kind": "SEND_OR_WRITE", "side": "REQUESTER"}
    assert len(channel.left.function.hca.page_faults) == 1


def test_event_late(channel, pager, source, plan, clock):
    plan('point="page_fault"\naction="delay"\nms=5')
    assert fault(channel, source, pager) == []
    clock.advance(5 * MS)
    (event,) = pager.faults()
    source.bring_in()
    pager.must_resume(event)
    assert len(channel.sent()) == 1


def test_storm_of_events_of_which_one_can_be_resumed(channel, pager, source, plan):
    plan('point="page_fault"\naction="duplicate"\ncount=5')
    events = fault(channel, source, pager)
    assert len(events) == 6
    assert {event.token for event in events} == {events[0].token}
    source.bring_in()
    assert [pager.resume(event) for event in events] == [Status.OK] + 5 * [Status.BAD_RES_ERR]
    assert len(channel.sent()) == 1


def test_event_repeated_no_time(channel, pager, source, plan):
    plan('point="page_fault"\naction="duplicate"\ncount=0')
    assert len(fault(channel, source, pager)) == 1


def test_wrong_token_is_no_fault_of_ours(channel, pager, source, plan):
    plan('point="page_fault"\naction="corrupt"\nset.token=0x123456\ntimes=1')
    (event,) = fault(channel, source, pager)
    assert event.token == 0x123456
    source.bring_in()
    assert pager.resume(event) == Status.BAD_RES_ERR
    assert channel.sent() == []


def test_fault_that_fails_untold(channel, pager, source, plan, clock):
    plan('point="page_fault"\naction="fail"')
    assert fault(channel, source, pager) == []
    clock.advance(1)
    (entry,) = channel.sender.cq.drain()
    assert entry.syndrome == CqeSyndrome.LOCAL_PROT_ERR


@pytest.mark.parametrize(
    ("rule", "status"),
    [('action="drop"', Status.OK), ('action="fail"\nstatus="BAD_PARAM_ERR"', Status.BAD_PARAM_ERR)],
    ids=["ignored", "refused"],
)
def test_resume_without_effect_until_the_next_one(channel, pager, source, plan, rule, status):
    plan(f'point="page_fault.resume"\n{rule}\ntimes=1')
    (event,) = fault(channel, source, pager)
    source.bring_in()
    assert pager.resume(event) == status
    assert channel.sent() == []
    pager.must_resume(event)
    assert len(channel.sent()) == 1


def test_resume_late(channel, pager, source, plan, clock):
    plan('point="page_fault.resume"\naction="delay"\nms=5\nmatch.error=0')
    (event,) = fault(channel, source, pager)
    source.bring_in()
    pager.must_resume(event)
    assert channel.sent() == []
    clock.advance(5 * MS)
    channel.left.settle()
    assert len(channel.sent()) == 1


def test_late_resume_of_a_queue_pair_that_has_stopped(channel, pager, source, plan, clock):
    injector = plan('point="page_fault.resume"\naction="delay"\nms=5')
    (event,) = fault(channel, source, pager)
    pager.must_resume(event)
    channel.sender.to_reset()
    clock.advance(5 * MS)
    assert injector.held == 0
    assert channel.left.function.hca.health.internal_errors == 0


def test_resume_taken_for_an_error(channel, pager, source, plan):
    plan('point="page_fault.resume"\naction="corrupt"\nset.error=1')
    (event,) = fault(channel, source, pager)
    source.bring_in()
    pager.must_resume(event)
    (entry,) = channel.sender.cq.drain()
    assert entry.syndrome == CqeSyndrome.LOCAL_PROT_ERR


def test_other_queue_pairs_are_left_alone(channel, pager, source, plan):
    plan(f'point="page_fault"\naction="drop"\nmatch.qpn={channel.sender.qpn + 1}')
    assert len(fault(channel, source, pager)) == 1


@pytest.mark.parametrize("point", ["page_fault", "page_fault.resume"])
def test_what_such_a_rule_cannot_set(point):
    with pytest.raises(PlanError, match="no field 'x' here"):
        load(f'[[rule]]\npoint="{point}"\naction="corrupt"\nset.x=1')
