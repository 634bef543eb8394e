"""Rates of vPorts by traffic class: arbiters, as core/esw/qos.c makes them for tc-bw."""

from collections import Counter

import pytest
from helpers.device.rated_vports import FIRST, MS, SECOND, SIZE, Roce, Switch
from helpers.device.snapshot import snapshot

from emu.device.port.eth.traffic import priority_of
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from firmware_cmds.objects.scheduling import E_SWITCH
from firmware_cmds.objects.vport_scheduling import RATE_LIMIT, TC_ARB, TSAR, VPORT, VPORT_TC
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpType

MANAGER = 0
CLASSES = 8
LOW, HIGH = 3, 4
SHARES = {LOW: 20, HIGH: 80}
MBPS = 20
"""Of the arbiter: two frames in a millisecond."""


class Tree:
    """An arbiter below a root, and the leaves of each class."""

    def __init__(self, switch):
        self.switch = switch
        self.root = switch.element()
        arbiter = {"element_attributes": TC_ARB << 16, "max_average_bw": MBPS}
        self.arbiter = switch.element(parent=self.root, **arbiter)
        self.tsars = [
            switch.element(
                parent=self.arbiter, element_attributes=at << 28, bw_share=SHARES.get(at, 0)
            )
            for at in range(CLASSES)
        ]

    def leaf(self, vport, traffic_class, **ctx):
        return self.switch.element(
            VPORT_TC, self.tsars[traffic_class],
            element_attributes=traffic_class << 28 | vport, **ctx,
        )  # fmt: skip

    def leaves(self, vport, **ctx):
        return [self.leaf(vport, at, **ctx) for at in range(CLASSES)]


@pytest.fixture
def switch(clock):
    return Switch(clock)


@pytest.fixture
def tree(switch):
    return Tree(switch)


def tag(priority):
    return b"\x81\0" + bytes((priority << 5, 7))


def passed(switch, ns):
    """How many frames of each priority leave within some time."""
    switch.passed(ns)
    return Counter(priority_of(frame.data) for frame in switch.frames)


@pytest.mark.parametrize("prio", [True, False], ids=["of the TIS", "of the frames"])
def test_classes_share_by_weight(switch, tree, prio):
    tree.leaves(FIRST)
    for at in SHARES:
        switch.queue(FIRST, 900, tag(at), prio=2 * at if prio else 0)
    sent = passed(switch, 400 * MS)
    assert 795 <= sent[LOW] + sent[HIGH] <= 810
    assert 3.3 < sent[HIGH] / sent[LOW] < 4.5


def test_a_class_alone_has_all(switch, tree):
    tree.leaves(FIRST)
    switch.queue(FIRST, 900, tag(LOW))
    assert 198 <= passed(switch, 100 * MS)[LOW] <= 206


def test_the_dscp_of_a_port_that_trusts_it(switch, tree):
    tree.leaves(FIRST)
    switch.members[FIRST].hca.eth.qos.trust(dscp=True)
    queues = [switch.queue(FIRST, 900, b"\x08\0\x45" + bytes((at << 5,))) for at in SHARES]
    switch.passed(400 * MS)
    low, high = (len(sq.cq.drain()) for sq in queues)
    assert 3.3 < high / low < 4.5


def test_vports_share_a_class(switch, tree):
    for vport in (FIRST, SECOND):
        tree.leaves(vport, bw_share=50)
        switch.queue(vport, 900, tag(LOW))
    first, second = switch.passed(400 * MS, at=18)
    assert 795 <= first + second <= 810
    assert 0.8 < first / second < 1.25


def test_a_rate_limiter_holds_for_all_classes_of_a_vport(switch, tree):
    limiter = switch.element(RATE_LIMIT, max_average_bw=10)
    leaves = tree.leaves(FIRST, max_bw_obj_id=limiter)
    for at in SHARES:
        switch.queue(FIRST, 900, tag(at))
    assert 98 <= sum(passed(switch, 100 * MS).values()) <= 106
    switch.modify(limiter, 15)
    assert 148 <= sum(passed(switch, 100 * MS).values()) <= 156
    held = {"scheduling_hierarchy": E_SWITCH, "scheduling_element_id": limiter}
    answer = switch.driver.command(Op.DESTROY_SCHEDULING_ELEMENT, **held)
    assert answer.status == Status.BAD_RES_STATE_ERR
    for leaf in leaves:
        switch.destroy(leaf)
    switch.destroy(limiter)
    assert sum(passed(switch, 10 * MS).values()) > 150


def test_all_of_it_goes_again(switch, tree):
    """The kernel first destroys the leaves, then what is above them."""
    leaves = tree.leaves(FIRST)
    sq = switch.queue(FIRST, 900, tag(LOW))
    passed(switch, 10 * MS)
    for element in (*leaves, *tree.tsars, tree.arbiter):
        switch.destroy(element)
    switch.vport(FIRST, tree.root, mbps=10)
    sq.cq.drain()
    assert 98 <= passed(switch, 100 * MS)[LOW] <= 106


def test_a_queues_own_rate_lasts_while_its_class_changes(switch, tree):
    """Frames of two classes by turns: a new pacing each time, without credit anew."""
    tree.leaves(MANAGER)
    driver, node = switch.driver, switch.manager.node
    driver.must(Op.SET_PP_RATE_LIMIT, rate_limit_index=1, ctx={"rate_limit": 5000})
    tisn = create_tis(driver, alloc_td(driver))
    sq = SendQueue(node, tisn=tisn, log_size=8, packet_pacing_rate_limit_index=1)
    for number in range(100):
        region = node.region(4096)
        region.write(b"\x02\0\0\0\0\x09" * 2 + tag((LOW, HIGH)[number % 2]) + b"\x88\xb5")
        sq.send((SIZE, region.key, region.va), ring=False)
    sq.ring_doorbell()
    for _ in range(100):
        node.settle()
        switch.clock.advance(MS)
    assert 50 <= len(sq.cq.drain()) <= 52


class TestRoce:
    """A class with a quarter of the arbiter's rate shows which class the packets are of."""

    @pytest.fixture
    def limited(self, switch, tree):
        """Limit the leaf of a class."""

        def limit(traffic_class):
            for at in range(CLASSES):
                tree.leaf(FIRST, at, max_average_bw=MBPS // 4 if at == traffic_class else 0)

        return limit

    @staticmethod
    def until(roce, number):
        """How many milliseconds pass until so many datagrams are received."""
        received = []
        return roce.time(
            lambda: received.extend(roce.channel.received()) or len(received) == number
        )

    @staticmethod
    def check_writing(roce, is_its):
        """A write takes four times as long if its class is the limited one."""
        roce.write()
        took = roce.time(roce.channel.sent)
        assert 195 < took < 230 if is_its else 48 < took < 60

    @pytest.mark.parametrize("gid", [1, 2], ids=["of the path", "of the tag"])
    @pytest.mark.parametrize("is_its", [True, False])
    def test_a_connections_priority(self, switch, limited, gid, is_its):
        limited(LOW if is_its else HIGH)
        roce = Roce(switch, gid=gid, path={"eth_prio": LOW})
        self.check_writing(roce, is_its)

    @pytest.mark.parametrize("is_its", [True, False])
    def test_the_dscp_of_a_port_that_trusts_it(self, switch, limited, is_its):
        limited(HIGH if is_its else LOW)
        switch.members[FIRST].hca.eth.qos.trust(dscp=True)
        roce = Roce(switch, path={"eth_prio": LOW, "tclass": HIGH << 5})
        self.check_writing(roce, is_its)

    @pytest.mark.parametrize("is_its", [True, False])
    def test_a_datagrams_service_level(self, switch, limited, is_its):
        limited(HIGH if is_its else LOW)
        roce = Roce(switch, QpType.UD)
        roce.send(25, stat_rate_sl=HIGH << 1)
        assert 49 < self.until(roce, 25) < 56 if is_its else 11 < self.until(roce, 25) < 15

    def test_priorities_change_while_frames_wait(self, switch, limited):
        """Both wait in order, so datagrams of a class without a limit wait for those before."""
        limited(LOW)
        roce = Roce(switch, QpType.UD)
        for at in (HIGH, LOW, HIGH):
            roce.send(10, stat_rate_sl=at << 1)
        assert 24 < self.until(roce, 30) < 34


@pytest.mark.parametrize(
    ("ctx", "status"),
    [
        ({"element_type": VPORT}, Status.BAD_PARAM_ERR),
        ({"element_attributes": LOW << 28 | 9}, Status.BAD_PARAM_ERR),
        ({"element_attributes": HIGH << 28 | FIRST}, Status.BAD_PARAM_ERR),
        ({"element_attributes": LOW << 28 | SECOND}, Status.BAD_PARAM_ERR),
        ({"parent_element_id": "arbiter"}, Status.BAD_PARAM_ERR),
        ({"parent_element_id": "root"}, Status.BAD_PARAM_ERR),
        ({"parent_element_id": 0}, Status.BAD_PARAM_ERR),
        ({"max_bw_obj_id": "root"}, Status.BAD_PARAM_ERR),
        ({"max_bw_obj_id": 99}, Status.BAD_RES_ERR),
        ({"element_type": TSAR}, Status.BAD_PARAM_ERR),
        (
            {
                "element_type": TSAR, "element_attributes": TC_ARB << 16,
                "parent_element_id": "arbiter",
            },
            Status.BAD_PARAM_ERR,
        ),
        ({"element_type": RATE_LIMIT}, Status.BAD_PARAM_ERR),
        (
            {"element_type": VPORT, "element_attributes": SECOND, "parent_element_id": "root"},
            Status.BAD_PARAM_ERR,
        ),
    ],
    ids=[
        "a whole vport", "no vport", "class", "it has one", "arbiter's", "root's", "no parent",
        "no limiter", "unknown limiter", "a TSAR", "an arbiter below", "a limiter below",
        "it has classes",
    ],
)  # fmt: skip
def test_what_is_refused(switch, tree, ctx, status):
    tree.leaves(SECOND)
    names = {"root": tree.root, "arbiter": tree.arbiter}
    fields = {
        "element_type": VPORT_TC, "parent_element_id": tree.tsars[LOW],
        "element_attributes": LOW << 28 | FIRST,
    }  # fmt: skip
    fields |= {name: names.get(value, value) for name, value in ctx.items()}
    before = snapshot(switch.manager.hca)
    answer = switch.driver.command(
        Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH, scheduling_context=fields
    )
    assert answer.status == status
    assert snapshot(switch.manager.hca) == before
