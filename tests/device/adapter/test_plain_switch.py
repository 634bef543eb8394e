"""The manager's vPort and the cable with nothing between them: plain switch, or no tables."""

import sys

import pytest
from helpers.device.adapters import Member, made, made_with_switch

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.no_wire import NoWire
from emu.driver.nodes.cable import Cable

FRAME = Frame((b"\xff" * 6 + b"\x02\0\0\0\0\1" + b"\x88\xb5").ljust(60, b"\0"))


@pytest.fixture
def cables():
    cable = Cable()
    return cable, cable.other()


@pytest.fixture(params=[made, made_with_switch])
def make(request):
    """Makes an adapter with a plain switch, or with an embedded one that has no tables."""
    return request.param


@pytest.fixture
def peers(make, cables, clock):
    """The managers of two adapters, at the two ends of a cable."""
    return [Member(make(cable).manager, clock) for cable in cables]


def counts(member):
    sent, received = member.hca.switch.port_traffic()
    return sent.packets, received.packets


def test_frames_pass_between_vport_and_cable(peers, cables):
    one, two = peers
    one.hca.switch.forward(one.hca, FRAME)
    cables[0].poll()
    assert cables[0].sent == [FRAME.data]
    assert two.hca.nic_vport.received.broadcast.packets == 1
    assert (counts(one), counts(two)) == ((0, 0), (0, 1))


def test_after_a_reset_the_new_state_gets_the_frames(peers, cables):
    one, two = peers
    before = two.hca
    two.function.reset()
    one.hca.switch.forward(one.hca, FRAME)
    cables[0].poll()
    assert before.nic_vport.received.packets == 0
    assert two.hca.nic_vport.received.packets == 1


def test_what_came_back_has_not_passed_the_port(peers):
    vport = peers[0].hca.nic_vport
    for way in (vport.sent, vport.received, vport.looped_out, vport.looped_in):
        way.add(FRAME.data)
    vport.sent.add(FRAME.data)
    assert counts(peers[0]) == (1, 0)


def test_another_functions_vport_leads_nowhere(cables, clock):
    adapter = made(cables[0])
    manager, other = (Member(place, clock) for place in (adapter.manager, adapter.add(1)))
    assert cables[0].hca is manager.hca
    assert [*adapter.switch.segment_of(adapter.manager).nodes()] == [manager.hca]
    adapter.switch.receive(FRAME)
    assert manager.hca.nic_vport.received.packets == 1
    assert other.hca.nic_vport.received.packets == 0


def calls(what, *arguments):
    """How many functions of Python a call runs."""
    counted = []
    sys.setprofile(lambda _, event, __: counted.append(event) if event == "call" else None)
    try:
        what(*arguments)
    finally:
        sys.setprofile(None)
    return len(counted)


def test_an_embedded_switch_without_tables_costs_no_call(clock):
    """Except one on receipt: whether a table matches the source vPort."""
    plain, embedded = (Member(make(NoWire()).manager, clock) for make in (made, made_with_switch))
    sends, receipts = (
        [work(member) for member in (plain, embedded)]
        for work in (
            lambda member: calls(member.hca.switch.forward, member.hca, FRAME),
            lambda member: calls(member.hca.switch.receive, FRAME),
        )
    )
    assert sends[0] == sends[1]
    assert receipts[1] - receipts[0] in (0, 1)


def test_before_anybody_has_power(make):
    switch = make(NoWire()).switch
    switch.receive(FRAME)
    assert [way.packets for way in switch.port_traffic()] == [0, 0]
