"""RESOURCE_DUMP of Ethernet queues: what mlx5e's reporters show (core/en/health.c)."""

from helpers.device.dump_kinds import BY_NAME

from emu.driver.command.resource_dump import inline, payload
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.cmd import Op


def test_contexts_of_queues(driver, node):
    sq, rq = SendQueue(node), ReceiveQueue(node)
    context = driver.must(Op.QUERY_RQ, rqn=rq.rqn).rq_context
    assert payload(inline(driver, BY_NAME["FULL_QPC"], rq.rqn)) == bytes(context)
    context = driver.must(Op.QUERY_SQ, sqn=sq.sqn).sq_context
    assert payload(inline(driver, BY_NAME["FULL_QPC"], sq.sqn)) == bytes(context)


def test_how_far_receive_queues_are(driver, node):
    rq = ReceiveQueue(node)
    found = payload(inline(driver, BY_NAME["RX_SLICE_ALL"]))
    assert found == rq.rqn.to_bytes(4, "big") + bytes(4)
    assert len(payload(inline(driver, BY_NAME["RCV_BUFF"], rq.rqn))) == rq.size * rq.stride
