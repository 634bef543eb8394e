"""Shared receive queues at work: links, limit, users, and lists that are broken (hw/srq.c)."""

import pytest

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.cmd import Op
from layouts.enums.cq import CqStatus
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType

RC, UC, UD = QpType.RC, QpType.UC, QpType.UD
LISTS = ("rmp", "srq", "xrc")
FORMS = ("ring", *LISTS)


class Users:
    """Some queue pairs of one shared queue, each with a sender."""

    def __init__(self, node, form, log_size=4, count=2):
        self.node, self.form = node, form
        if form == "xrc":
            self.channel = Channel(QpType.XRC, node, node)
            self.srq, self.rcq = self.channel.srq, self.channel.recv_cq
            self.senders = [self.channel.sender]
            self.receivers = [self.channel.receiver]
            return
        self.channel = None
        self.srq, self.rcq = (
            node.shared_queue(form=form, log_size=log_size),
            node.completion_queue(),
        )
        self.senders, self.receivers = [], []
        for _ in range(count):
            sender, receiver = node.queue_pair(), QueuePair(node, srq=self.srq, rcq=self.rcq)
            connect(sender, receiver)
            self.senders.append(sender)
            self.receivers.append(receiver)

    def send(self, data, number=0):
        sender = self.senders[number % len(self.senders)]
        sender.send(data, xrc_srqn=self.channel.srqn if self.channel else None)
        self.node.settle()

    def sent(self):
        """Make room for more completions of what is sent."""
        for sender in self.senders:
            sender.cq.drain()

    def received(self):
        found = self.rcq.drain()
        assert {completion.opcode for completion in found} <= {CqeOpcode.RESP_SEND}
        return [completion.wqe_counter for completion in found]

    def failure(self):
        return next(
            found.syndrome
            for found in self.senders[0].cq.drain()
            if found.opcode == CqeOpcode.REQ_ERR
        )


@pytest.fixture(params=FORMS)
def users(node, request):
    return Users(node, request.param)


@pytest.fixture(params=LISTS)
def lists(node, request):
    """Users of a queue whose requests are linked."""
    return Users(node, request.param)


@pytest.fixture
def region(node):
    return node.region(64 * 64)


def slot(region, number):
    return region.sge(64 * number, 64)


def test_requests_are_used_in_the_lists_order(users, region):
    for number in range(8):
        users.srq.post(slot(region, number))
    for number in range(8):
        users.send(bytes([number + 1]) * 4, number)
    assert users.received() == list(range(8))
    assert [region.read(64 * number, 1)[0] for number in range(8)] == list(range(1, 9))


def test_completion_names_queue_and_request(users, region):
    index = users.srq.post(slot(region, 0))
    users.send(b"data")
    (completion,) = users.rcq.drain()
    assert (completion.wqe_counter, completion.srqn) == (index, users.srq.srqn)
    assert completion.qpn == users.receivers[0].qpn


def test_list_that_is_relinked_as_it_completes(users, region):
    """Freed in another order than used: only the links say what comes next."""
    size = users.srq.size - 1
    owner = {}
    for number in range(size):
        owner[users.srq.post(slot(region, number % 64))] = number % 64
    for _budget in range(6):
        indices = []
        for number in range(size):
            users.send(bytes([number]) * 4, number)
            users.sent()
            indices += users.received()
        assert sorted(indices) == sorted(owner)
        for index in indices[::2] + indices[1::2]:
            users.srq.free(index)
        owner = {users.srq.post(slot(region, number % 64)): number % 64 for number in range(size)}


@pytest.mark.parametrize("form", ["rmp", "ring"])
def test_many_laps_over_sixteen_bits(node, region, form):
    users = Users(node, form, log_size=2)
    queue = node.hca.srqs.get(users.srq.srqn).queue
    queue._consumed = users.srq.posted = 0xFFF0
    for number in range(64):
        index = users.srq.post(slot(region, 0))
        users.send(bytes([number]), number)
        assert users.received() == [index]
        users.srq.free(index)


def test_empty_queue_makes_the_sender_wait(users, region, clock):
    users.send(b"data")
    assert users.received() == []
    users.srq.post(slot(region, 0))
    clock.advance(1_000_000_000)
    users.node.settle()
    assert users.received() == [0]


def test_ring_that_is_full(node, region):
    """More is posted than there is room for: the ring's length is what waits."""
    users = Users(node, "ring", log_size=2)
    for number in range(4):
        users.srq.post(slot(region, number))
    users.srq.count(100)
    for number in range(8):
        users.send(bytes([number + 1]), number)
    assert users.received() == list(range(8))
    assert [region.read(64 * number, 1)[0] for number in range(4)] == [5, 6, 7, 8]


def test_request_comes_back_to_a_ring(node, region):
    """Its queue pair went before the message was complete: the next message gets the request."""
    users = Users(node, "ring")
    users.srq.post(slot(region, 0))
    queue = node.hca.srqs.get(users.srq.srqn).queue
    wqe = queue.take()
    assert queue.posted() == 0
    queue.give_back(wqe)
    assert queue.posted() == 1
    users.send(b"data")
    assert users.received() == [0]


# Limit (IBTA 10.2.9.1).


def limits(node):
    return [about for event, about in node.events() if event is EventType.SRQ_RQ_LIMIT]


def test_limit_event_comes_once(users, region):
    for number in range(6):
        users.srq.post(slot(region, number))
    users.srq.arm(4)
    users.send(b"x")
    users.send(b"x")
    assert limits(users.node) == []
    users.send(b"x")
    assert limits(users.node) == [users.srq.srqn]
    users.send(b"x")
    assert limits(users.node) == []


def test_limit_can_be_armed_again(users, region):
    for number in range(6):
        users.srq.post(slot(region, number))
    for mark in (6, 5):
        users.srq.arm(mark)
        users.send(b"x")
        assert limits(users.node) == [users.srq.srqn]


def test_limit_can_be_disarmed(users, region):
    users.srq.post(slot(region, 0))
    users.srq.arm(1)
    users.srq.arm(0)
    users.send(b"x")
    assert limits(users.node) == []


def test_limit_of_datagrams(node, region):
    srq = node.shared_queue()
    channel = Channel(UD, node, node)
    channel.receiver = node.queue_pair(UD, srq=srq, rcq=channel.recv_cq)
    channel.receiver.init(q_key=0x1234, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0)
    for _ in range(2):
        srq.post(region.sge())
    srq.arm(2)
    channel.send(b"data")
    node.settle()
    assert channel.received()[0].srqn == srq.srqn
    assert limits(node) == [srq.srqn]


# Lists that cannot be.


def broken(users):
    events = users.node.events()
    assert events[0] == (EventType.SRQ_CATAS_ERROR, users.srq.srqn)
    assert events[1] == (EventType.WQ_CATAS_ERROR, users.receivers[0].qpn)
    assert users.receivers[0].state == QpState.ERR
    assert users.failure() == CqeSyndrome.REMOTE_OP_ERR


@pytest.mark.parametrize("beyond", [0, 1, 0xFFFF])
def test_link_out_of_the_queue(lists, region, beyond):
    lists.srq.post(slot(region, 0))
    lists.srq.link(0, min(lists.srq.size + beyond, 0xFFFF))
    lists.send(b"data")
    broken(lists)
    assert not any(region.read())


@pytest.mark.parametrize(("links", "good"), [({0: 0}, 1), ({1: 0}, 2), ({1: 1}, 2), ({2: 1}, 3)])
def test_links_in_a_circle(lists, region, links, good):
    """The requests that wait are different ones, so the circle shows when it closes."""
    for number in range(6):
        lists.srq.post(slot(region, number))
    for index, following in links.items():
        lists.srq.link(index, following)
    for _ in range(good):
        lists.send(b"good")
    assert lists.received() == list(range(good))
    lists.send(b"bad")
    broken(lists)
    assert lists.rcq.drain() == []


def test_broken_queue_stays_broken_and_is_reported_once(node, region):
    users = Users(node, "rmp", count=2)
    users.srq.post(slot(region, 0))
    users.srq.post(slot(region, 1))
    users.srq.link(0, 0xFFFF)
    users.send(b"data", 0)
    broken(users)
    users.srq.link(0, 1)
    users.send(b"data", 1)
    events = node.events()
    assert events[0] == (EventType.WQ_CATAS_ERROR, users.receivers[1].qpn)
    assert EventType.SRQ_CATAS_ERROR not in dict(events)
    assert not any(region.read())


def test_query_says_that_the_queue_is_broken(lists, region, driver):
    query = {
        "rmp": lambda: driver.must(Op.QUERY_RMP, rmpn=lists.srq.srqn).rmp_context.state,
        "xrc": lambda: (
            driver.must(Op.QUERY_XRC_SRQ, xrc_srqn=lists.srq.srqn).xrc_srq_context_entry.state
        ),
        "srq": lambda: driver.must(Op.QUERY_SRQ, srqn=lists.srq.srqn).srq_context_entry.state,
    }[lists.form]
    good = query()
    lists.srq.post(slot(region, 0))
    lists.srq.link(0, 0xFFFF)
    lists.send(b"data")
    assert query() != good


def test_other_queues_go_on(lists, node, region):
    other = Users(node, "rmp")
    lists.srq.post(slot(region, 0))
    lists.srq.link(0, 0xFFFF)
    lists.send(b"data")
    other.srq.post(slot(region, 1))
    other.send(b"data")
    assert other.received() == [0]


def test_buffer_taken_away(users, region):
    users.srq.post(slot(region, 0))
    for page in users.srq.pages:
        users.node.memory.revoke(page)
    users.send(b"data")
    broken(users)


# Two queues of one domain, XRC.


def test_sender_chooses_the_shared_queue(node, region):
    channel = Channel(QpType.XRC, node, node)
    domain = node.hca.srqs.get(channel.srqn).xrcd.handle
    second = node.shared_queue(xrcd=domain, cq=channel.recv_cq)
    channel.srq.post(slot(region, 0))
    second.post(slot(region, 1))
    for srqn, data in ((second.srqn, b"two"), (channel.srqn, b"one")):
        channel.srqn = srqn
        channel.send(data)
    node.settle()
    assert [found.srqn for found in channel.received()] == [second.srqn, channel.srq.srqn]
    assert (region.read(0, 3), region.read(64, 3)) == (b"one", b"two")


def test_older_form_serves_xrc_too(node, region):
    channel = Channel(QpType.XRC, node, node)
    domain = node.hca.srqs.get(channel.srqn).xrcd.handle
    old = node.shared_queue(form="srq", xrcd=domain, cq=channel.recv_cq)
    old.post(slot(region, 0))
    channel.srqn = old.srqn
    channel.send(b"data")
    node.settle()
    assert channel.received()[0].srqn == old.srqn


# An XRC SRQ reports to a CQ of its own, which may break.


def overrun(channel, region):
    """Fill the CQ of two entries: the third completion is one too many."""
    for number in range(4):
        channel.srq.post(slot(region, number))
    for _ in range(3):
        channel.send(b"data")
    channel.settle()


def test_xrc_queue_stops_with_its_cq(node, region, driver):
    channel = Channel(QpType.XRC, node, node, log_cq_size=1)
    bystander = Channel(QpType.XRC, node, node)
    overrun(channel, region)
    assert node.events() == [
        (EventType.CQ_ERROR, channel.recv_cq.cqn), (EventType.SRQ_CATAS_ERROR, channel.srqn),
    ]  # fmt: skip
    context = driver.must(Op.QUERY_XRC_SRQ, xrc_srqn=channel.srqn).xrc_srq_context_entry
    assert context.state == 1
    channel.sent()
    channel.send(b"lost")
    channel.settle()
    assert channel.failure() == CqeSyndrome.REMOTE_OP_ERR
    assert channel.receiver.state == QpState.ERR
    assert node.events() == [(EventType.WQ_CATAS_ERROR, channel.receiver.qpn)]
    bystander.srq.post(slot(region, 5))
    bystander.send(b"data")
    bystander.settle()
    assert len(bystander.received()) == 1


def test_xrc_message_that_has_begun_when_the_cq_breaks(packet_pair, packet_wire):
    """Its queue pair stops: its completion would be lost, and its sender told of success."""
    left, right = packet_pair
    channel = Channel(QpType.XRC, left, right, mtu=1, log_cq_size=1)
    region = right.region(4096)
    channel.srq.post(region.sge())
    packet_wire.room = 1
    channel.send(left.region(4096).sge(0, 1000))
    left.function.run()
    packet_wire.deliver()
    right.function.run()
    cq = right.hca.cqs.get(channel.recv_cq.cqn)
    right.hca.scheduler.add_broken(cq)
    cq.status = CqStatus.CQ_OVERFLOW
    right.function.run()
    assert right.hca.qps.get(channel.receiver.qpn).state is QpState.ERR
    assert (EventType.WQ_CATAS_ERROR, channel.receiver.qpn) in right.events()


@pytest.mark.parametrize("limit", [2, 0])
@pytest.mark.parametrize("service", [RC, UD])
def test_doorbell_record_gone_when_the_limit_is_checked(packet_pair, packet_wire, service, limit):
    """A request was taken without a look at the record, having been given back by a queue pair.

    The message is filled in; the queue is broken from then on, and says so once. Without a limit
    nobody looks at the record.
    """
    left, right = packet_pair
    srq, rcq = right.shared_queue(), right.completion_queue()
    sender, receiver = left.queue_pair(), QueuePair(right, srq=srq, rcq=rcq)
    connect(sender, receiver, mtu=1)
    source, target = left.region(4096), right.region(4096)
    srq.post(target.sge())
    packet_wire.room = 1
    sender.send(source.sge(0, 1000))
    left.function.run()
    packet_wire.deliver()
    receiver.to_reset()
    sender.to_reset()
    packet_wire.frames.clear()
    srq.arm(limit)
    if service is RC:
        connect(sender, receiver, mtu=1)
        sender.send(source.sge(0, 8))
    else:
        channel = Channel(UD, left, right)
        channel.receiver = right.queue_pair(UD, srq=srq, rcq=rcq)
        channel.receiver.init(q_key=0x1234, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0)
        channel.send(source.sge(0, 8))
    right.memory.revoke(srq.record)
    packet_wire.settle()
    (received,) = rcq.drain()
    assert (received.opcode, received.srqn) == (CqeOpcode.RESP_SEND, srq.srqn)
    assert right.events() == ([(EventType.SRQ_CATAS_ERROR, srq.srqn)] if limit else [])
