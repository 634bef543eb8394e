"""A driver that moves its doorbell records back: what was used seems to be posted again."""

import pytest

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.frames import MACS
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.eqe import EventType
from layouts.enums.wq import RqState, SqState, WqType

pytestmark = [pytest.mark.hostile, pytest.mark.parametrize("back", [1, 4, 0x8000])]
FRAME = MACS + b"\x08\x06" + bytes(range(114))
AGAIN = (RqState.ERR, RqState.RST, RqState.RDY)


@pytest.fixture
def lead(driver, td, flows):
    """Make every frame go to a receive queue."""

    def to(rqn):
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tir = to_tir(create_direct_tir(driver, td, rqn))
        flows.entry(table, 0, flows.group(table, 0, 0), tir)

    return to


def tell(queue, posted):
    queue.node.memory.write(queue.ring.record, (posted & 0xFFFF).to_bytes(4, "big"))


@pytest.mark.parametrize("wq_type", [WqType.CYCLIC, WqType.LINKED_LIST])
def test_requests_of_a_packet_each(hca, node, lead, wq_type, back):
    """They are filled again, and nothing else is; from RST on all is as at first."""
    rq = ReceiveQueue(node, wq={"wq_type": wq_type})
    lead(rq.rqn)
    buffers, other = Buffers(rq, 256, count=16), node.region(4096)
    for _ in range(5):
        arrive(hca, Frame(FRAME))
    assert len(buffers.drain()) == 5
    tell(rq, 5 - back)
    for _ in range(40):
        arrive(hca, Frame(FRAME))
        assert {data for _, data in buffers.drain()} <= {FRAME}
    assert not any(other.read())
    for state in AGAIN:
        rq.modify(state)
        node.settle()
        buffers.drain()
    buffers.post()
    arrive(hca, Frame(FRAME))
    ((entry, data),) = buffers.drain()
    assert (entry.wqe_counter, data) == (0, FRAME)


@pytest.mark.parametrize("is_cyclic", [False, True], ids=["linked", "cyclic"])
def test_requests_of_strides(hca, node, lead, is_cyclic, back):
    """The strides of each request add up, as the driver relies on (``StridingQueue.drain``)."""
    rq = StridingQueue(node, is_cyclic=is_cyclic)
    lead(rq.rqn)
    rq.post_more(4)
    for _ in range(16):
        arrive(hca, Frame(FRAME))
    assert len(rq.drain()) == 16
    tell(rq, 4 - back)
    for _ in range(40):
        arrive(hca, Frame(FRAME))
        assert {piece.data for piece in rq.drain()} <= {FRAME}
    for state in AGAIN:
        rq.modify(state)
        node.settle()
        rq.drain()
    rq.post_more()
    arrive(hca, Frame(FRAME))
    assert [(p.wqe_id, p.first, p.data) for p in rq.drain()] == [(0, 0, FRAME)]


def test_send_requests(node, sq, back):
    """The producer index is where nothing was posted: the queue breaks, as for one that jumps."""
    for _ in range(5):
        sq.nop()
    node.settle()
    assert len(sq.cq.drain()) == 5
    sq.sent -= back
    sq.write_record()
    sq.ring_doorbell()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, sq.sqn)]
    assert sq.query().state == SqState.ERR
