"""Queue pairs in queue groups, as mlx5dv_modify_qp_sched_elem(3) puts them there."""

import pytest

from emu.device.models import LINKS, MODELS
from emu.driver.nodes.packet_wire import is_train
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from firmware_cmds.objects.scheduling import NIC, QUEUE_GROUP
from firmware_cmds.objects.vport_scheduling import TSAR
from layouts.enums.cmd import Op, Status
from layouts.enums.general_object import GeneralObject
from layouts.enums.qp import QpState, QpType
from layouts.objects.qp import qpc_ext
from layouts.objects.scheduling import sched_elem

MS = 1_000_000
GROUP = 1 << 1
"""Of opt_param_mask_95_32."""
BYTES = 1250
"""Of a message: 10,000 bits, 10 ms at 1 Mb/s."""


@pytest.fixture
def model():
    return MODELS["connectx7"]


def element(driver, parent=0, kind=TSAR, **context):
    context |= {"element_type": kind, "parent_element_id": parent}
    obj = sched_elem.new(scheduling_hierarchy=NIC, sched_context=context)
    kind = {"op_mod": GeneralObject.SCHEDULING_ELEMENT, "extra": bytes(obj)}
    return driver.must(Op.CREATE_GENERAL_OBJECT, **kind).obj_id


def leaf(driver, root=None, **context):
    return element(driver, root or element(driver), QUEUE_GROUP, **context)


def group(requester=0, responder=0, mask=GROUP):
    ext = qpc_ext.new(
        qos_queue_group_id_requester=requester, qos_queue_group_id_responder=responder
    )
    return {"opt_param_mask_95_32": mask, "qpc_ext": 1, "qpc_data_ext": bytes(ext)}


def join(qp, *groups):
    qp.node.driver.must(Op.RTS2RTS_QP, qpn=qp.qpn, **group(*groups))


def run(clock, ends, ms):
    for _ in range(ms):
        for end in ends:
            end.settle()
        clock.advance(MS)


@pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.UD])
def test_the_requesters_rate(ends, clock, service):
    """Of its messages 1 Mb/s lets 20 through in 200 ms, with their headers somewhat fewer."""
    channel = Channel(service, *ends)
    left, right = ends
    source, target = left.region(BYTES), right.region(BYTES + 40)
    join(channel.sender, leaf(left.driver, max_average_bw=1))
    for _ in range(30):
        channel.post_recv(target.sge())
        channel.send(source.sge(0, BYTES))
    run(clock, ends, 200)
    first = len(channel.recv_cq.drain())
    assert 16 <= first <= 21
    run(clock, ends, 300)
    assert len(channel.recv_cq.drain()) == 30 - first


def test_the_responders_rate(ends, clock):
    left, right = (end.queue_pair() for end in ends)
    connect(left, right, rre=1)
    source, target = ends[1].region(BYTES), ends[0].region(BYTES)
    join(right, 0, leaf(ends[1].driver, max_average_bw=1))
    for _ in range(40):
        left.read((source.key, source.va), target.sge())
    run(clock, ends, 200)
    assert 16 <= len(left.cq.drain()) <= 21


@pytest.mark.parametrize("op", ["write", "read"])
def test_paced_packets_go_alone(packet_pair, packet_wire, op):
    """A train would be many at once."""
    packet_wire.takes_trains, seen = True, []
    packet_wire.tap = lambda frame: (seen.append(frame), [frame])[1]
    left, right = (end.queue_pair() for end in packet_pair)
    connect(left, right, rre=1, mtu=1)
    groups = [leaf(end.driver, max_average_bw=1000) for end in packet_pair]
    join(*((left, groups[0]) if op == "write" else (right, 0, groups[1])))
    source, target = (end.region(1 << 14) for end in packet_pair)
    getattr(left, op)((target.key, target.va), source.sge())
    packet_pair[0].settle()
    assert len(seen) > 8
    assert not any(map(is_train, seen))


def test_shares_of_what_is_above(node, clock):
    """Three times the weight is three times as much."""
    root = element(node.driver, max_average_bw=4)
    source, target = node.region(BYTES), node.region(BYTES)
    counts = []
    for share in (1, 3):
        left, right = node.queue_pair(log_sq_size=9), node.queue_pair(log_rq_size=9)
        connect(left, right)
        join(left, leaf(node.driver, root, bw_share=share))
        for _ in range(250):
            right.post_recv(target.sge())
            left.send(source.sge())
        counts.append(right)
    run(clock, [node], 500)
    slow, fast = (len(qp.cq.drain()) for qp in counts)
    assert 180 <= slow + fast <= 220
    assert fast > 2 * slow


def test_without_the_group_all_goes(node, clock):
    left, right = node.queue_pair(), node.queue_pair()
    connect(left, right)
    source, target = node.region(BYTES), node.region(BYTES)
    one = leaf(node.driver, max_average_bw=1)
    join(left, one)
    for _ in range(20):
        right.post_recv(target.sge())
        left.send(source.sge())
    node.settle()
    join(left)
    run(clock, [node], 30)
    assert len(right.cq.drain()) == 20
    node.driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=GeneralObject.SCHEDULING_ELEMENT, obj_id=one)


def test_a_group_is_held(node, refused):
    left, right = node.queue_pair(), node.queue_pair()
    connect(left, right)
    one = leaf(node.driver)
    join(left, one, one)
    gone = {"op_mod": GeneralObject.SCHEDULING_ELEMENT, "obj_id": one}
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **gone)
    left.destroy()
    node.driver.must(Op.DESTROY_GENERAL_OBJECT, **gone)


def test_nothing_comes_of_a_queue_pair_that_waited(node, clock):
    left, right = node.queue_pair(), node.queue_pair()
    connect(left, right)
    source, target = node.region(BYTES), node.region(BYTES)
    join(left, leaf(node.driver, max_average_bw=1))
    for _ in range(20):
        right.post_recv(target.sge())
        left.send(source.sge())
    node.settle()
    before = len(right.cq.drain())
    assert before < 5
    left.to_reset()
    run(clock, [node], 100)
    assert not right.cq.drain()


@pytest.mark.parametrize(
    ("service", "groups", "status"),
    [
        (QpType.RC, (99, 0), Status.BAD_RES_ERR),
        (QpType.RC, (0, 99), Status.BAD_RES_ERR),
        (QpType.RC, ("tsar", 0), Status.BAD_PARAM_ERR),
        (QpType.UC, (0, "leaf"), Status.BAD_PARAM_ERR),
    ],
)
def test_refused(node, refused, service, groups, status):
    qp = node.queue_pair(service)
    qp.init()
    kinds = {"tsar": element(node.driver), "leaf": leaf(node.driver)}
    ids = [kinds.get(one, one) for one in groups]
    refused(status, Op.INIT2INIT_QP, qpn=qp.qpn, **group(*ids))
    assert qp.state == QpState.INIT


class TestOlder:
    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    def test_it_is_no_group_of_theirs(self, node, refused):
        qp = node.queue_pair()
        qp.init()
        refused(Status.BAD_PARAM_ERR, Op.INIT2INIT_QP, qpn=qp.qpn, **group())


def test_by_model():
    has = {
        (name, link.name)
        for name, links in LINKS.items()
        for link, model in links.items()
        if model.qos.get("nic_qp_scheduling")
    }
    assert ("connectx7", "IB") in has
    assert ("connectx6dx", "ETH") in has
    assert ("connectx6", "IB") not in has
    assert ("connectx7-vf", "IB") not in has
