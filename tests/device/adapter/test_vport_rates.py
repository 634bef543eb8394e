"""Rates of vPorts: the scheduling elements of an embedded switch, as core/esw/qos.c makes them."""

import pytest
from helpers.device.rated_vports import FIRST, MS, SECOND, Roce, Switch
from helpers.device.snapshot import snapshot

from emu.device.rounds.costs import STEPS_PER_NEW_PACING
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.outcomes import all_good
from firmware_cmds.objects.scheduling import E_SWITCH, NIC, QUEUE_GROUP
from firmware_cmds.objects.vport_scheduling import TSAR, VPORT
from layouts.enums.cmd import Op, Status


@pytest.fixture
def switch(clock):
    return Switch(clock)


@pytest.fixture
def root(switch):
    return switch.element()


@pytest.fixture
def refused(switch):
    def check(status, op, **fields):
        before = snapshot(switch.manager.hca)
        assert switch.driver.command(op, **fields).status == status
        assert snapshot(switch.manager.hca) == before

    return check


def test_a_vports_queues_share_its_rate(switch, root):
    switch.vport(FIRST, root, mbps=10)
    for _ in range(2):
        switch.queue(FIRST, 200)
    switch.queue(SECOND, 300)
    first, second = switch.passed(100 * MS)
    assert 98 <= first <= 104
    assert second == 300


def test_queues_that_were_there_before(switch, root):
    element = switch.vport(FIRST, root)
    switch.queue(FIRST, 600)
    switch.modify(element, 10)
    assert 98 <= switch.passed(100 * MS)[0] <= 104
    switch.modify(element, 20)
    assert 198 <= switch.passed(100 * MS)[0] <= 204
    switch.destroy(element)
    assert switch.passed(10 * MS)[0] >= 250


def test_a_group_shares_its_rate_by_weight(switch, root):
    group = switch.element(parent=root, max_average_bw=20)
    for number, share in ((FIRST, 30), (SECOND, 10)):
        switch.vport(number, group, share=share)
        switch.queue(number, 900)
    first, second = switch.passed(400 * MS)
    assert 795 <= first + second <= 805
    assert 2 < first / second < 4


@pytest.mark.parametrize("profile", [0, 1], ids=["graceful", "forced"])
def test_rates_of_roce_end_with_the_managers_driver(switch, root, profile):
    """The next driver of either function has no limit, also where none is running now."""
    members = (switch.manager, switch.members[FIRST])
    switch.members[FIRST].driver.must(Op.TEARDOWN_HCA, profile=1)
    for number in (0, FIRST):
        switch.vport(number, root, mbps=10)
    found = [member.hca.rates for member in members]
    assert None not in [rates.roce for rates in found]
    switch.driver.must(Op.TEARDOWN_HCA, profile=profile)
    assert [rates.roce for rates in found] == [None, None]


def test_rates_of_queues_end_when_the_manager_fails(switch, root, caplog):
    """Other functions go on, and so does a queue that waits."""
    switch.vport(FIRST, root, mbps=10)
    sq = switch.queue(FIRST, 200)
    assert switch.passed(10 * MS)[0] < 20
    switch.manager.hca.health.fail()
    caplog.clear()
    switch.members[FIRST].node.settle()
    assert len(all_good(sq.cq)) == 200
    assert sq.object.pacing is None


def test_the_managers_own_queues_are_not_of_these(switch, root):
    switch.vport(FIRST, root, mbps=1)
    assert SendQueue(switch.manager.node).object.pacing is None


@pytest.fixture
def roce(clock):
    return Roce(Switch(clock))


class TestRoce:
    """Its frames are a vPort's as those of the network interface are."""

    @pytest.fixture
    def time(self, roce):
        """How many milliseconds an RDMA WRITE takes."""

        def written():
            roce.write()
            return roce.time(roce.channel.sent)

        return written

    def test_a_rate(self, roce, time):
        root = roce.switch.element()
        assert time() < 5
        element = roce.switch.vport(FIRST, root, mbps=10)
        assert 95 < time() < 115
        roce.switch.modify(element, 50)
        assert 18 < time() < 30
        roce.switch.destroy(element)
        assert time() < 5

    def test_the_peers_rate_is_for_what_it_sends(self, roce, time):
        roce.switch.vport(SECOND, roce.switch.element(), mbps=10)
        assert time() < 10

    def test_it_shares_with_the_interfaces_queues(self, roce, time):
        roce.switch.vport(FIRST, roce.switch.element(), mbps=20)
        roce.switch.queue(FIRST, 400)
        assert 95 < time() < 115

    def test_nobody_waits_for_it_when_it_is_done(self, roce, time, clock):
        """Its last frame has used up the rate, and no other follows."""
        element = roce.switch.vport(FIRST, roce.switch.element(), mbps=100)
        time()
        assert not roce.switch.manager.hca.scheduling_elements.need(element).wanting
        sq = roce.switch.queue(FIRST, 400)
        for _ in range(300):
            roce.channel.left.settle()
            clock.advance(MS // 10)
        assert 290 <= len(all_good(sq.cq)) <= 315

    def test_a_reset_while_the_next_frame_waits(self, roce, clock):
        roce.switch.vport(FIRST, roce.switch.element(), mbps=1)
        roce.write()
        roce.channel.settle()
        clock.advance(0)
        waiting = clock.waiting()
        assert waiting
        member = roce.switch.members[FIRST]
        member.function.reset()
        assert clock.waiting() < waiting
        (element,) = (one for one in roce.switch.manager.hca.scheduling_elements if one.parent)
        assert not element.wanting
        assert member.hca.rates.roce is not None
        clock.advance(100 * MS)
        assert not member.hca.health.internal_errors


@pytest.mark.parametrize("how", ["reset", "teardown", "destroyed"])
def test_nobody_waits_for_a_queue_that_is_gone(switch, root, how):
    number = switch.vport(FIRST, root, mbps=1)
    sq = switch.queue(FIRST, 20)
    switch.passed(10 * MS)
    elements = switch.manager.hca.scheduling_elements
    assert elements.need(number).wanting
    member = switch.members[FIRST]
    if how == "reset":
        member.function.reset()
        member.function.run()
    elif how == "teardown":
        member.driver.must(Op.TEARDOWN_HCA)
    else:
        member.driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
    assert not any(element.wanting for element in elements)


@pytest.mark.hostile
def test_nobody_waits_for_a_function_that_has_failed(switch, root, caplog):
    """Its objects stay until its firmware restarts, seconds later."""
    group = switch.element(parent=root, max_average_bw=20)
    for number in (FIRST, SECOND):
        switch.vport(number, group)
        switch.queue(number, 900)
    switch.passed(100 * MS)
    member = switch.members[FIRST]
    member.hca.health.fail()
    caplog.clear()
    member.function.run()
    first, second = switch.passed(200 * MS)
    assert first == 0
    assert 395 <= second <= 405


@pytest.mark.hostile
def test_nobody_waits_for_a_queue_whose_receiver_pauses_it(switch, root):
    group = switch.element(parent=root, max_average_bw=20)
    for number in (FIRST, SECOND):
        switch.vport(number, group)
        switch.queue(number, 900)
    switch.wire.paused = {FIRST}
    switch.passed(200 * MS)
    first, second = switch.passed(200 * MS)
    assert first == 0
    assert 395 <= second <= 405
    switch.wire.paused = frozenset()
    assert switch.passed(200 * MS)[0] > 150


def test_a_queue_with_a_new_rate_costs_more_than_a_look(switch, root):
    for _ in range(5):
        switch.queue(FIRST, 0)
    budget = switch.clock.budget
    budget.begin()
    number = switch.vport(FIRST, root, mbps=10)
    made = budget.steps
    budget.begin()
    switch.modify(number, 20)
    assert made - budget.steps >= 5 * STEPS_PER_NEW_PACING - 1


def test_queues_of_a_vport_take_turns(switch, root):
    switch.vport(FIRST, root, mbps=10)
    queues = [switch.queue(FIRST, 200) for _ in range(2)]
    switch.passed(100 * MS)
    assert [45 <= len(all_good(sq.cq)) <= 55 for sq in queues] == [True, True]


def test_nobody_waits_for_a_neighbour_with_a_rate_of_its_own(switch, root):
    group = switch.element(parent=root, max_average_bw=100)
    switch.vport(FIRST, group, mbps=1)
    switch.vport(SECOND, group)
    for number in (FIRST, SECOND):
        switch.queue(number, 900)
    first, second = switch.passed(80 * MS)
    assert 7 <= first <= 10
    assert 780 <= second <= 800


def test_what_is_below_goes_first(switch, root, refused):
    vport = switch.vport(FIRST, root)
    held = {"scheduling_hierarchy": E_SWITCH, "scheduling_element_id": root}
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_SCHEDULING_ELEMENT, **held)
    switch.destroy(vport)
    switch.destroy(root)
    assert not len(switch.manager.hca.scheduling_elements)


@pytest.mark.parametrize(
    ("ctx", "status"),
    [
        ({"element_type": QUEUE_GROUP}, Status.BAD_PARAM_ERR),
        ({"element_attributes": 9}, Status.BAD_PARAM_ERR),
        ({"element_attributes": SECOND}, Status.BAD_PARAM_ERR),
        ({"bw_share": 101}, Status.BAD_PARAM_ERR),
        ({"parent_element_id": 99}, Status.BAD_RES_ERR),
    ],
    ids=["type", "no vport", "it has one", "share", "parent"],
)
def test_what_is_refused(switch, root, refused, ctx, status):
    switch.vport(SECOND, root)
    fields = {"element_type": VPORT, "parent_element_id": root, "element_attributes": FIRST} | ctx
    refused(
        status, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_nothing_is_below_a_vport(switch, root, refused):
    vport = switch.vport(FIRST, root)
    fields = {"element_type": TSAR, "parent_element_id": vport}
    refused(
        Status.BAD_PARAM_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_a_tree_is_as_deep_as_advertised(switch, root, refused):
    depth = 1 << switch.manager.hca.caps.qos.log_esw_max_sched_depth
    last = root
    for _ in range(depth - 1):
        last = switch.element(parent=last)
    fields = {"element_type": TSAR, "parent_element_id": last}
    refused(
        Status.LIM_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context=fields,
    )  # fmt: skip


def test_the_trees_are_apart(switch, root, refused):
    """An element is named with the hierarchy that it is in."""
    about = {"scheduling_hierarchy": NIC, "scheduling_element_id": root}
    for op in (
        Op.MODIFY_SCHEDULING_ELEMENT, Op.QUERY_SCHEDULING_ELEMENT, Op.DESTROY_SCHEDULING_ELEMENT,
    ):  # fmt: skip
        refused(Status.BAD_RES_ERR, op, **about)
    fields = {"element_type": QUEUE_GROUP, "parent_element_id": root}
    refused(
        Status.BAD_RES_ERR, Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=NIC,
        scheduling_context=fields,
    )  # fmt: skip


def test_a_function_without_a_switch_has_no_such_tree(switch):
    answer = switch.members[FIRST].driver.command(
        Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
        scheduling_context={"element_type": TSAR},
    )  # fmt: skip
    assert answer.status != Status.OK
