"""A process that drives the device by itself: all its queues made by DEVX, as UCX makes them."""

import pytest

from emu.driver.command.devx import READ, WRITE, Devx
from emu.driver.command.words import pack64, unpack64
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode

SHARED = 0xFFFF
PAGE = 4096


@pytest.fixture
def process(function, driver):
    """A node whose driver is a process; its EQs are the kernel's, for everybody to use."""
    node = Node(function, driver)
    eqn = driver.must(Op.CREATE_EQ, uid=SHARED, **driver.eq_fields(log_size=8)).eq_number
    node.driver, node.eqn = Devx(driver), eqn
    node.pdn = node.driver.alloc_pd()
    return node


@pytest.mark.parametrize("form", ["rmp", "ring"])
def test_messages_into_a_shared_queue(process, form):
    """UCX's rc_mlx5: RC queue pairs that receive from an RMP over a ring, or over a list."""
    srq = process.shared_queue(form=form, log_size=3)
    ends = [QueuePair(process, srq=srq, fre=0) for _ in range(2)]
    connect(*ends)
    region = process.region(PAGE)
    for number in range(20):
        srq.post(region.sge(64 * (number % 8), 64))
        ends[0].send(bytes([number]) * 64)
        process.settle()
        (received,) = ends[1].cq.drain()
        place = number if form == "ring" else number % srq.size
        assert (received.opcode, received.wqe_counter) == (CqeOpcode.RESP_SEND, place)
        assert region.read(64 * (number % 8), 64) == bytes([number]) * 64
        srq.free(received.wqe_counter)
    assert {done.opcode for done in ends[0].cq.drain()} == {CqeOpcode.REQ}


def test_own_receive_queue(process):
    ends = [QueuePair(process, fre=0) for _ in range(2)]
    connect(*ends)
    region = process.region(PAGE)
    ends[1].post_recv(region.sge())
    ends[0].send(b"data")
    process.settle()
    assert ends[1].cq.drain()[0].byte_cnt == 4
    assert region.read(0, 4) == b"data"


class TestRights:
    """The device writes into a CQ; work queues and doorbell records it only reads."""

    def fields(self, process, rights):
        devx = process.driver
        fields = devx.cq_fields(process.eqn)
        context = fields["cq_context"] | {"uar_page": devx.uar}
        number = devx.umem(unpack64(fields["extra"]), rights)
        return {"cq_context": context, "cq_umem_valid": 1, "cq_umem_id": number}

    def test_completion_queue_must_be_writable(self, process, refused):
        uid = process.driver.uid
        refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, uid=uid, **self.fields(process, READ))
        process.driver._driver.must(Op.CREATE_CQ, uid=uid, **self.fields(process, READ | WRITE))

    def test_one_page_that_may_not_be_written(self, process, driver, refused):
        pages = driver.memory.pages(2 * PAGE)
        entries = pack64([pages[0] | READ | WRITE, pages[1] | READ])
        uid = process.driver.uid
        number = driver.must(Op.CREATE_UMEM, uid=uid, umem={"num_of_mtt": 2}, extra=entries).umem_id
        fields = self.fields(process, READ | WRITE)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, uid=uid, **fields | {"cq_umem_id": number})
