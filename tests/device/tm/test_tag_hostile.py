"""Queues with tags under hostile drivers and peers."""

import pytest
from helpers.device.tags import TaggedEnds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.models import MODELS
from emu.driver.command.answer import DriverError
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.driver.verbs.tag_queue import ALL_BITS, TagQueue, eager, request
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType, RqType
from layouts.enums.wqe import Opcode
from layouts.objects.xrq import OFFLOAD_RNDV
from layouts.rings.tag_matching import TM_CQE_REQ, TmAppOp, TmOpcode, wqe_tm_seg
from layouts.rings.wqe import DATA

pytestmark = pytest.mark.hostile


def failure(tagged):
    """What the commands' queue pair has failed with."""
    tagged.settle()
    found = [one for one in tagged.queue.cq.drain() if one.wqe_opcode == Opcode.TAG_MATCHING]
    assert tagged.queue.commands.state is QpState.ERR
    return found[0].syndrome


@pytest.mark.parametrize(
    "post",
    [
        lambda queue: queue.change(3),
        lambda queue: queue.change(15, flags=0xFF),
        lambda queue: queue.remove(8),
        lambda queue: queue.change(TmOpcode.APPEND, 8, DATA.pack(0, 0x100, 0)),
        lambda queue: queue.change(TmOpcode.APPEND, 0xFFFF, DATA.pack(0, 0x100, 0)),
        lambda queue: queue.change(TmOpcode.APPEND, 1),
        lambda queue: queue.add_inline(1),
        lambda queue: queue.commands.post(Opcode.TAG_MATCHING),
        lambda queue: queue.commands.post(Opcode.TAG_MATCHING, bytes(16)),
    ],
)
def test_requests_of_nonsense(tagged, post):
    post(tagged.queue)
    assert failure(tagged) == CqeSyndrome.LOCAL_QP_OP_ERR
    tagged.send(eager(0))
    assert [found.app_op for found in tagged.completions()] == [TmAppOp.UNEXPECTED]


def test_an_index_that_is_in_use(tagged):
    for _ in range(2):
        segment = wqe_tm_seg.new(opcode=TmOpcode.APPEND, index=0, append_mask=ALL_BITS)
        body = bytes(segment.buf), DATA.pack(0, 0x100, 0)
        tagged.queue.commands.post(Opcode.TAG_MATCHING, *body, flags=0)
    assert failure(tagged) == CqeSyndrome.LOCAL_QP_OP_ERR


def test_an_index_whose_data_are_being_fetched(tagged):
    """So a driver cannot have more than a list's length on their way."""
    tagged.queue.add(tagged.target.sge(0, 100), tag=3)
    tagged.completions()
    hca = tagged.right.function.hca
    (srq,) = [one for one in hca.srqs if one.tags is not None]
    assert srq.tags.match(3) is not None
    tagged.queue.indices = [0, 1]
    tagged.queue.change(TmOpcode.APPEND, 0, DATA.pack(0, 0x100, 0))
    tagged.queue.change(TmOpcode.APPEND, 1, DATA.pack(0, 0x100, 0))
    assert failure(tagged) == CqeSyndrome.LOCAL_QP_OP_ERR


@pytest.mark.parametrize("has_srq", [False, True])
def test_of_a_queue_pair_without_tags(node, has_srq):
    segment = wqe_tm_seg.new(opcode=TmOpcode.NOP, flags=TM_CQE_REQ)
    ends = [node.queue_pair(srq=node.shared_queue() if has_srq else None) for _ in range(2)]
    connect(*ends)
    ends[0].post(Opcode.TAG_MATCHING, bytes(segment.buf))
    node.settle()
    (failed,) = ends[0].cq.drain()
    assert failed.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR


def test_index_of_a_request_that_changes_no_entry(tagged):
    tagged.queue.change(TmOpcode.NOP, 0xFFFF)
    assert [found.app_op for found in tagged.completions()] == [TmAppOp.NOOP]


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"topology": 0}, Status.BAD_PARAM_ERR),
        ({"offload": 2}, Status.BAD_PARAM_ERR),
        ({"dc": 1}, Status.BAD_PARAM_ERR),
        ({"rlkey": 1}, Status.BAD_PARAM_ERR),
        ({"cqn": 0xFFFFFF}, Status.BAD_RES_ERR),
        ({"tag_matching_topology_context": {"log_matching_list_sz": 8}}, Status.LIM_ERR),
    ],
)
def test_queues_that_there_are_not(node, refused, context, status):
    fields = TagQueue(node).fields(6, 6)
    fields["xrq_context"] |= context
    refused(status, Op.CREATE_XRQ, **fields)


def test_requests_have_no_strides(node, refused):
    fields = TagQueue(node).fields(6, 6)
    fields["xrq_context"]["wq"]["wq_type"] = 2
    refused(Status.BAD_PARAM_ERR, Op.CREATE_XRQ, **fields)


@pytest.mark.parametrize("limits", [{"tag_matching": 0}])
def test_without_the_capability(node, refused):
    queue = TagQueue.__new__(TagQueue)
    queue.node, queue.cq, queue.log_list, queue.context = node, node.completion_queue(), 3, {}
    queue.has_ring = False
    refused(Status.BAD_PARAM_ERR, Op.CREATE_XRQ, **queue.fields(6, 6))


def test_who_may_use_it(node, refused):
    queue = TagQueue(node)
    for st_, offload in ((QpType.UC, 0), (QpType.UD, 0), (QpType.RC, 2)):
        fields = node.driver.qp_fields(
            node.pdn, queue.cq.cqn, st=st_, rq_type=RqType.SRQ, srqn_rmpn_xrqn=queue.srqn,
            offload_type=offload, log_rq_size=0, log_rq_stride=0,
        )  # fmt: skip
        refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, **fields)
    plain = node.driver.qp_fields(node.pdn, queue.cq.cqn, offload_type=OFFLOAD_RNDV)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, **plain)
    target = {"pd": node.pdn, "cqn": queue.cq.cqn, "srqn_xrqn": queue.srqn, "mtu": 3}
    refused(Status.BAD_PARAM_ERR, Op.CREATE_DCT, dct_context_entry=target)


def test_it_is_not_destroyed_before_its_queue_pairs(node, refused):
    queue = TagQueue(node).start()
    for number in (queue.srqn,):
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_XRQ, xrqn=number)
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_RMP, rmpn=number)
    queue.commands.destroy()
    node.driver.must(Op.DESTROY_XRQ, xrqn=queue.srqn)
    refused(Status.BAD_RES_ERR, Op.QUERY_XRQ, xrqn=queue.srqn)


def test_query_and_limit(tagged):
    queue, driver = tagged.queue, tagged.right.driver
    queue.add(tagged.target.sge(0, 64), tag=1)
    tagged.completions()
    tagged.send(eager(2))
    tagged.completions()
    queue.arm(8)
    context = driver.must(Op.QUERY_XRQ, xrqn=queue.srqn).xrq_context
    tags = context.tag_matching_topology_context
    assert (context.wq.lwm, tags.append_next_index) == (8, 1)
    assert (tags.hw_phase_cnt, tags.sw_phase_cnt) == (1, 0)
    driver.must(Op.ARM_XRQ, xrqn=queue.srqn, lwm=7)
    tagged.send(eager(2))
    events = [entry.type for eq in driver.eqs.values() for entry in eq.drain()]
    assert EventType.SRQ_RQ_LIMIT in events


# -- what runs when a queue pair stops


@pytest.fixture
def fetching(packet_pair, packet_wire):
    """A rendezvous whose data do not come: the wire loses all that the sender answers."""
    tagged = TaggedEnds(*packet_pair)
    tagged.queue.add(tagged.target.sge(0, 5000), tag=3)
    tagged.completions()
    tagged.source.write(b"x" * 5000, 0)
    tagged.sender.send(request(3, tagged.source.va, tagged.source.key, 5000))
    has_lost = []

    def lose(frame):
        if len(frame) > 600:
            has_lost.append(frame)
        return [] if has_lost else [frame]

    packet_wire.tap = lose
    return tagged


def test_data_are_fetched_behind_a_message_of_the_queue_pair_itself(packet_pair):
    """All that the driver has posted is sent by then, and no doorbell tells of the fetch."""
    tagged = TaggedEnds(*packet_pair)
    place = tagged.left.region(64)
    tagged.sender.post_recv(place.sge())
    tagged.receiver.send(b"own")
    tagged.settle()
    assert place.read(0, 3) == b"own"
    tagged.queue.add(tagged.target.sge(0, 5000), tag=3)
    tagged.completions()
    tagged.source.write(b"x" * 5000, 0)
    tagged.sender.send(request(3, tagged.source.va, tagged.source.key, 5000))
    tagged.settle()
    assert tagged.target.read(0, 5000) == b"x" * 5000


@pytest.mark.parametrize("how", ["error", "reset", "destroy"])
def test_the_queue_pair_stops_meanwhile(fetching, packet_wire, how):
    assert [found.app_op for found in fetching.completions()] == [TmAppOp.CONSUMED]
    receiver = fetching.receiver
    if how == "destroy":
        receiver.destroy()
    else:
        receiver.to_error() if how == "error" else receiver.to_reset()
    assert [found.app_op for found in fetching.completions()] == [TmAppOp.MSG_COMPLETION_CANCELED]
    packet_wire.tap = lambda frame: [frame]
    assert fetching.completions() == []
    assert fetching.target.read(4000, 1000) == bytes(1000)
    if how == "destroy":
        fetching.queue.commands.destroy()
        fetching.right.driver.must(Op.DESTROY_XRQ, xrqn=fetching.queue.srqn)


@pytest.fixture
def begun(packet_pair, packet_wire):
    """Has a message begin that never ends; ``tag`` 3 is expected."""
    tagged = TaggedEnds(*packet_pair)
    tagged.queue.add(tagged.target.sge(0, 5000), tag=3)
    tagged.completions()
    tagged.spare.write(bytes(1 << 14))

    def begin(tag):
        packet_wire.tap = lambda frame: [frame] if packet_wire.sent == first else []
        first = packet_wire.sent + 1
        packet_wire.room = 1
        tagged.source.write(eager(tag, b"x" * 1500), 0)
        tagged.sender.send(tagged.source.sge(0, 1500))
        tagged.settle()
        packet_wire.tap, packet_wire.room = lambda frame: [], 1 << 30
        told = [found.app_op for found in tagged.completions()]
        assert told == ([TmAppOp.CONSUMED] if tag == 3 else [])
        return tagged

    return begin


@pytest.mark.parametrize("how", ["to_error", "to_reset"])
def test_queue_pair_stops_in_the_middle_of_an_expected_message(begun, how):
    tagged = begun(3)
    assert tagged.target.read(0, 8) == b"x" * 8
    getattr(tagged.receiver, how)()
    assert [found.app_op for found in tagged.completions()] == [TmAppOp.MSG_COMPLETION_CANCELED]


@pytest.mark.parametrize("how", ["to_error", "to_reset"])
def test_queue_pair_stops_in_the_middle_of_an_unexpected_message(begun, packet_wire, how):
    """An error flushes its receive request; after a reset the next message gets it."""
    tagged = begun(4)
    assert any(tagged.spare.read(0, 2048))
    getattr(tagged.receiver, how)()
    flushed = [done.syndrome for done in tagged.queue.cq.drain()]
    assert flushed == ([CqeSyndrome.WR_FLUSH_ERR] if how == "to_error" else [])
    packet_wire.tap = lambda frame: [frame]
    sender, receiver = tagged.left.queue_pair(), tagged.queue.queue_pair()
    connect(sender, receiver)
    sender.send(eager(5, b"next"))
    (found,) = tagged.completions()
    assert found.app_op is TmAppOp.UNEXPECTED
    assert found.index == (how == "to_error")


def test_the_function_is_torn_down_meanwhile(fetching, packet_wire):
    fetching.completions()
    before = fetching.queue.cq.entry(fetching.queue.cq.ci)
    fetching.right.driver.must(Op.TEARDOWN_HCA)
    packet_wire.tap = lambda frame: [frame]
    fetching.settle()
    assert fetching.queue.cq.entry(fetching.queue.cq.ci) == before
    assert fetching.target.read(4000, 1000) == bytes(1000)


def test_a_lost_packet_of_the_data(fetching, packet_wire, clock):
    fetching.completions()
    packet_wire.tap = lambda frame: [frame]
    for _ in range(50):
        clock.advance(100_000_000)
        fetching.settle()
    assert [found.app_op for found in fetching.completions()] == [TmAppOp.EXPECTED]
    assert fetching.target.read(0, 5000) == b"x" * 5000


# -- random messages and requests


def two_ends():
    clock = HandClock()
    return TaggedEnds(*two_nodes(MODELS["connectx6"], clock, LocalFabric(clock)))


COMMANDS = st.tuples(st.just("command"), st.binary(min_size=32, max_size=48))
NEARLY = st.builds(
    lambda op, index, flags, tag, count: (
        "command",
        bytes(
            wqe_tm_seg.new(
                opcode=op, index=index, flags=flags, append_tag=tag, append_mask=3, sw_cnt=count
            ).buf
        ),
    ),
    st.integers(0, 3), st.integers(0, 8), st.sampled_from([0, 0x40, 0x80, 0xC0]),
    st.integers(0, 3), st.integers(0, 5),
)  # fmt: skip
MESSAGES = st.builds(
    lambda opcode, tag, more: ("message", bytes((opcode, *bytes(14), tag)) + more),
    st.integers(0, 4), st.integers(0, 3), st.binary(max_size=60),
)  # fmt: skip
SHORT = st.tuples(st.just("message"), st.binary(max_size=40))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(COMMANDS, NEARLY, MESSAGES, SHORT), max_size=20))
def test_random_requests_and_messages(steps):
    """Whatever comes, only buffers that were posted change, and the next one is served."""
    tagged = two_ends()
    guard = tagged.right.region(4096)
    guard.write(b"g" * 4096)
    for kind, data in steps:
        if kind == "command":
            where = DATA.pack(*tagged.target.sge(0, 64))
            tagged.queue.commands.post(Opcode.TAG_MATCHING, data[:32], where, flags=0)
        else:
            tagged.sender.send(data)
        tagged.settle()
        while tagged.queue.cq.poll() is not None:
            pass
        tagged.sender.cq.drain()
    assert guard.read() == b"g" * 4096
    assert tagged.target.read(64, 1000) == bytes(1000)
    for qp in (tagged.queue.commands, tagged.receiver, tagged.sender):
        assert qp.state in (QpState.RTS, QpState.ERR)
    fresh = TagQueue(tagged.right).start()
    fresh.add(None, tag=1)
    tagged.settle()
    assert [found.app_op for found in fresh.drain()] == [TmAppOp.APPEND]


def test_an_error_is_no_completion_of_tags(tagged):
    tagged.queue.change(9)
    tagged.settle()
    with pytest.raises(DriverError):
        tagged.queue.drain()
