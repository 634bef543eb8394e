"""Queue pairs whose doorbells say how much has been posted (send_dbr_mode NO_DBR_EXT)."""

import struct

import pytest

from emu.device.models import LINKS, MODELS
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import good
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpState

PAGE, NO_DBR, WITH_DBR = 4096, 0x600, 0x800
NO_DBR_EXT, NO_DBR_INT = 1, 2
SEND = 0x0A


@pytest.fixture
def model():
    return MODELS["connectx7"]


@pytest.fixture
def sides(node):
    left, right = node.queue_pair(send_dbr_mode=NO_DBR_EXT), node.queue_pair()
    connect(left, right)
    for _ in range(8):
        right.post_recv(node.region(4096).sge())
    return left, right


def doorbell(qp, index, ds=2, at=NO_DBR, length=8):
    data = struct.pack(">II", index << 8 | SEND, qp.qpn << 8 | ds)[:length]
    qp.node.driver.bar.write(qp.node.driver.uar * PAGE + at, data)
    qp.node.settle()


def post(node, qp, count):
    source = node.region(64)
    return [qp.send(source.sge(), ring=False) for _ in range(count)]


def test_the_doorbell_alone_counts(node, sides):
    left, right = sides
    first, second, _ = post(node, left, 3)
    node.settle()
    doorbell(left, first)
    assert len(good(right)) == 1
    doorbell(left, second)
    assert len(good(right)) == 1
    doorbell(left, second)
    assert not good(right)


@pytest.mark.parametrize(
    ("at", "length", "ds"), [(WITH_DBR, 8, 2), (NO_DBR, 4, 2), (NO_DBR, 8, 0), (0x700, 4, 2)]
)
def test_what_is_no_whole_doorbell(node, sides, at, length, ds):
    left, right = sides
    (first,) = post(node, left, 1)
    doorbell(left, first, at=at, length=length, ds=ds)
    assert not good(right)


def test_a_queue_with_a_record_is_not_told_so(node):
    left, right = node.queue_pair(), node.queue_pair()
    connect(left, right)
    right.post_recv(node.region(64).sge())
    (first,) = post(node, left, 1)
    doorbell(left, first)
    assert not good(right)
    left.ring()
    node.settle()
    assert len(good(right)) == 1


def test_an_index_that_jumps(node, sides):
    left, _ = sides
    doorbell(left, 0x7000)
    assert left.state == QpState.ERR
    assert not [done for done in left.cq.drain() if done.opcode == CqeOpcode.REQ]


def test_reset_begins_at_0(node, sides):
    left, right = sides
    for number in post(node, left, 3):
        doorbell(left, number)
    left.to_reset()
    right.to_reset()
    connect(left, right)
    right.post_recv(node.region(64).sge())
    node.settle()
    right.cq.drain()
    (first,) = post(node, left, 1)
    assert first == 0
    doorbell(left, first)
    assert len(good(right)) == 1


def test_no_number(node):
    node.driver.bar.write(node.driver.uar * PAGE + NO_DBR, struct.pack(">II", SEND, 0x999902))
    node.settle()


@pytest.mark.parametrize(("name", "mode"), [("connectx7", NO_DBR_INT), ("connectx7", 3)])
def test_other_modes(node, refused, name, mode):
    qp = node.queue_pair()
    ctx = node.driver.must(Op.QUERY_QP, qpn=qp.qpn).qpc.as_dict()
    refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, qpc=ctx | {"send_dbr_mode": mode})


class TestOlder:
    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    def test_it_is_refused(self, node, refused):
        qp = node.queue_pair()
        ctx = node.driver.must(Op.QUERY_QP, qpn=qp.qpn).qpc.as_dict()
        refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, qpc=ctx | {"send_dbr_mode": NO_DBR_EXT})


def test_by_model():
    has = {
        name
        for name, links in LINKS.items()
        for model in links.values()
        if model.general_2.get("send_dbr_mode_no_dbr_ext")
    }
    assert has == {"connectx7", "connectx7-vf", "bluefield3", "bluefield3-vf"}
