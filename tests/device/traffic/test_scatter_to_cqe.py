"""Scatter to CQE: short messages, and short answers, stand in completions instead of in memory.

Source: libmlx5 (cq.c: handle_responder; qp.c: mlx5_copy_to_recv_wqe, mlx5_copy_to_send_wqe), which
copies them to where the work request says; hw/qp.c for the fields of the contexts.
"""

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.objects.queues.qp import Qp
from emu.driver.verbs.connect import connect
from emu.driver.verbs.dynamic import Initiator, Target
from emu.driver.verbs.segments import SIGNALED
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType, RqType

RES, REQ = (0, 1, 2), (0, 0x11, 0x22)
"""cs_res and cs_req, for no bytes, 32 and 64."""
NARROW, WIDE = 0, 1
"""cqe_sz."""
TEXT = bytes(range(1, 251))
UNSIGNALED = 0


@pytest.fixture
def source(ends):
    region = ends[0].region(256)
    region.write(TEXT)
    return region


@pytest.fixture
def target(ends):
    return ends[1].region(256)


def connected(ends, service=QpType.RC, cqe_sz=NARROW, *, srq=False, **context):
    """Two queue pairs whose completion queues have such entries."""
    made = []
    for node in ends:
        cq = node.completion_queue(cqe_sz=cqe_sz)
        shared = node.shared_queue() if srq else None
        made.append(node.queue_pair(service, cq=cq, srq=shared, **context))
    connect(*made)
    return made


def one_send(ends, source, target, length, **options):
    """The receive completion of a SEND with so many bytes, and what has come to memory."""
    one, two = connected(ends, **options)
    (two.srq.post if two.srq else two.post_recv)(target.sge(0, 128))
    one.send(source.sge(0, length))
    ends[0].settle()
    (_,), (received,) = one.cq.drain(), two.cq.drain()
    assert (received.opcode, received.byte_cnt) == (CqeOpcode.RESP_SEND, length)
    assert received.qpn == two.qpn
    return received, target.read(0, 128)


@pytest.mark.parametrize(
    ("cqe_sz", "cs_res", "length"),
    [(NARROW, 1, 1), (NARROW, 1, 32), (WIDE, 1, 32), (WIDE, 2, 1), (WIDE, 2, 32), (WIDE, 2, 64)],
)
@pytest.mark.parametrize("service", [QpType.RC, QpType.UC], ids=lambda st: st.name)
def test_a_short_message(ends, source, target, service, cqe_sz, cs_res, length):
    received, memory = one_send(
        ends, source, target, length, service=service, cqe_sz=cqe_sz, cs_res=cs_res
    )
    assert received.scattered == TEXT[:length]
    assert not any(memory)


@pytest.mark.parametrize(
    ("cqe_sz", "cs_res", "length"),
    [
        (NARROW, 0, 8), (NARROW, 1, 33), (WIDE, 1, 33), (WIDE, 2, 65),
        (NARROW, 2, 8), (NARROW, 1, 0), (NARROW, 3, 8),
    ],
)  # fmt: skip
def test_other_messages_go_to_memory(ends, source, target, cqe_sz, cs_res, length):
    """One that is too long, or empty; and a completion queue without the room for 64 bytes."""
    received, memory = one_send(ends, source, target, length, cqe_sz=cqe_sz, cs_res=cs_res)
    assert received.scattered is None
    assert memory == TEXT[:length].ljust(128, b"\0")


def test_only_a_whole_message(ends):
    """Of one that is longer the last packet may be short enough."""
    sent, room = (node.region(8192) for node in ends)
    text = (TEXT * 33)[: 4096 + 8]
    sent.write(text)
    one, two = connected(ends, cs_res=1)
    two.post_recv(room.sge())
    one.send(sent.sge(0, len(text)))
    ends[0].settle()
    (received,) = two.cq.drain()
    assert (received.byte_cnt, received.scattered) == (len(text), None)
    assert room.read(0, len(text)) == text


def test_written_data_go_to_memory(ends, source, target):
    one, two = connected(ends, cs_res=1)
    two.post_recv(target.sge())
    one.write((target.key, target.va), source.sge(0, 20))
    one.write((target.key, target.va + 20), source.sge(20, 20), imm=1)
    ends[0].settle()
    (received,) = two.cq.drain()
    assert (received.byte_cnt, received.scattered) == (20, None)
    assert target.read(0, 40) == TEXT[:40]


def test_a_shared_queue(ends, source, target):
    received, memory = one_send(ends, source, target, 20, cs_res=1, srq=True)
    assert received.scattered == TEXT[:20]
    assert not any(memory)


def test_immediate_and_invalidation(ends, source, target):
    one, two = connected(ends, cs_res=1)
    for _ in range(2):
        two.post_recv(target.sge(0, 128))
    one.send(source.sge(0, 20), imm=0x11223344)
    one.write((target.key, target.va + 128), source.sge(0, 20), imm=0x55667788)
    ends[0].settle()
    sent, written = two.cq.drain()
    assert (sent.immediate, sent.scattered) == (0x11223344, TEXT[:20])
    assert (written.immediate, written.scattered) == (0x55667788, None)
    assert target.read(0) == bytes(128) + TEXT[:20] + bytes(108)


@pytest.mark.parametrize(
    ("length", "syndrome"),
    [(16, CqeSyndrome.LOCAL_LENGTH_ERR), (0, CqeSyndrome.LOCAL_PROT_ERR)],
)
def test_the_place_is_checked(ends, source, target, length, syndrome):
    """The receive request has to have room that its owner may write to, as without it."""
    one, two = connected(ends, cs_res=1)
    count, key, address = target.sge(0, length or 128)
    two.post_recv((count, key if length else key ^ 1, address))
    one.send(source.sge(0, 20))
    ends[0].settle()
    (received,) = two.cq.drain()
    assert (received.opcode, received.syndrome) == (CqeOpcode.RESP_ERR, syndrome)
    assert one.cq.drain()[0].opcode == CqeOpcode.REQ_ERR


@pytest.mark.parametrize(
    ("cqe_sz", "cs_req", "length"),
    [(NARROW, 0x11, 32), (WIDE, 0x11, 32), (WIDE, 0x22, 1), (WIDE, 0x22, 64)],
)
def test_a_short_read(ends, source, target, cqe_sz, cs_req, length):
    one, _ = connected(ends, cqe_sz=cqe_sz, cs_req=cs_req)
    target.write(TEXT)
    source.write(bytes(256))
    one.read((target.key, target.va), source.sge(0, length))
    ends[0].settle()
    (done,) = one.cq.drain()
    assert (done.byte_cnt, done.scattered) == (length, TEXT[:length])
    assert not any(source.read(0))


@pytest.mark.parametrize(
    ("cqe_sz", "cs_req", "length"),
    [(NARROW, 0, 8), (NARROW, 0x11, 33), (WIDE, 0x22, 65), (NARROW, 0x22, 8), (NARROW, 0x33, 8)],
)
def test_other_reads_go_to_memory(ends, source, target, cqe_sz, cs_req, length):
    one, _ = connected(ends, cqe_sz=cqe_sz, cs_req=cs_req)
    target.write(TEXT)
    one.read((target.key, target.va), source.sge(100, length))
    ends[0].settle()
    (done,) = one.cq.drain()
    assert done.scattered is None
    assert source.read(100, length) == TEXT[:length]


def test_a_read_without_a_completion(ends, source, target):
    """Its answer has no other place than the memory."""
    one, _ = connected(ends, cs_req=0x11)
    target.write(TEXT)
    one.read((target.key, target.va), source.sge(100, 20), flags=UNSIGNALED)
    one.read((target.key, target.va), source.sge(200, 20), flags=SIGNALED)
    ends[0].settle()
    (done,) = one.cq.drain()
    assert done.scattered == TEXT[:20]
    assert source.read(100, 20) == TEXT[:20]
    assert source.read(200, 20) == TEXT[200:220]


def test_atomics(ends, source, target):
    """The old value is big-endian, while memory has the host's byte order (UCX, rc_mlx5_iface.c).

    libmlx5 does not know those with masks.
    """
    one, _ = connected(ends, cs_req=0x11)
    remote, sge = (target.key, target.va), source.sge(0, 8)
    target.write((5).to_bytes(8, "little"))
    one.fetch_add(remote, sge, 2)
    one.compare_swap(remote, sge, 7, 9)
    one.masked_fetch_add(remote, sge, 1)
    ends[0].settle()
    values = [done.scattered for done in one.cq.drain()]
    assert values == [(5).to_bytes(8, "big"), (7).to_bytes(8, "big"), None]
    assert source.read(0, 8) == (9).to_bytes(8, "little")


def test_only_answers(ends, source, target):
    """What is sent stays where it is; its completion is an ordinary one."""
    one, two = connected(ends, cs_req=0x11)
    two.post_recv(target.sge())
    one.send(source.sge(0, 20))
    one.write((target.key, target.va), source.sge(0, 20))
    ends[0].settle()
    assert [done.scattered for done in one.cq.drain()] == [None, None]


def test_many_in_a_ring_that_wraps(ends, source, target):
    """Each entry has the data of its own message, in both halves of it."""
    one, two = connected(ends, cqe_sz=WIDE, cs_res=2)
    for number in range(600):
        two.post_recv(target.sge(0, 64))
        one.send(source.sge(number % 100, 1 + number % 64))
        ends[0].settle()
        ((received,), _) = two.cq.drain(), one.cq.drain()
        assert received.scattered == TEXT[number % 100 :][: 1 + number % 64]


@pytest.mark.parametrize("limits", [{"sctr_data_cqe": 0}])
def test_a_capability(limits, ends, source, target):
    received, _ = one_send(ends, source, target, 20, cs_res=1, cs_req=0x11)
    assert received.scattered is None
    one, _ = connected(ends, cs_req=0x11)
    one.read((target.key, target.va), source.sge(200, 8))
    ends[0].settle()
    (read,) = one.cq.drain()
    assert read.scattered is None
    assert source.read(200, 8) == TEXT[:8]


@pytest.mark.parametrize("service", [QpType.UD, QpType.XRC])
def test_other_services_have_none(node, service):
    """A datagram's receive completion says more than such an entry has room for."""
    context = {"cs_res": 1, "cs_req": 0x11}
    if service is QpType.XRC:
        context |= {"rq_type": RqType.ZERO_LEN_RQ, "log_rq_size": 0, "log_rq_stride": 0}
        context["xrcd"] = node.driver.must(Op.ALLOC_XRCD).xrcd
    made = node.queue_pair(service, **context)
    qp = node.function.hca.objects[Qp].need(made.qpn)
    assert (qp.cs_res, qp.cs_req) == (0, 0)


@pytest.mark.parametrize(
    ("cqe_sz", "cs_res", "is_scattered"), [(WIDE, 2, True), (NARROW, 1, True), (NARROW, 0, False)]
)
def test_dc(pair, cqe_sz, cs_res, is_scattered):
    """A target's completions, and an initiator's (hw/qp.c: create_dct, create_dci)."""
    left, right = pair
    source, memory = left.region(256), right.region(256)
    source.write(TEXT)
    memory.write(TEXT[::-1])
    target = Target(right, cqe_sz=cqe_sz, cs_res=cs_res)
    initiator = Initiator(left, target, cs_req=0x11)
    target.srq.post(memory.sge(128, 64))
    initiator.send(source.sge(0, 20))
    initiator.read((memory.key, memory.va), source.sge(200, 8))
    left.settle()
    (received,), (_, read) = target.cq.drain(), initiator.cq.drain()
    assert received.scattered == (TEXT[:20] if is_scattered else None)
    assert read.scattered == TEXT[::-1][:8]


@pytest.mark.parametrize("limits", [{"dc_req_scat_data_cqe": 0}])
def test_dc_requests_have_a_capability_of_their_own(pair):
    left, right = pair
    source, memory = left.region(256), right.region(256)
    memory.write(TEXT)
    initiator = Initiator(left, Target(right), cs_req=0x11)
    initiator.read((memory.key, memory.va), source.sge(200, 8))
    left.settle()
    (read,) = initiator.cq.drain()
    assert read.scattered is None
    assert source.read(200, 8) == TEXT[:8]
    one, _ = connected(pair, cs_req=0x11)
    one.read((memory.key, memory.va), source.sge(200, 8))
    left.settle()
    (read,) = one.cq.drain()
    assert read.scattered == TEXT[:8], "those of RC need none"


@pytest.mark.parametrize(("cqe_sz", "cs_res"), [(NARROW, 1), (WIDE, 2)])
def test_faults(node, function, clock, cqe_sz, cs_res):
    """A rule changes the entry, and the data come; an error has none."""
    injector = Injector(function, sink=lambda _: None)
    function.use_faults(injector)
    rules = (
        'action="corrupt"\nset.srqn=5', 'action="delay"\nms=1', 'action="fail"',
    )  # fmt: skip
    source, memory = node.region(64), node.region(64)
    source.write(TEXT[:64])
    found = []
    for rule in rules:
        text = f'[[rule]]\npoint="cqe"\nmatch.opcode="RESP_SEND"\ntimes=1\n{rule}'
        injector.load(load(text))
        one, two = connected((node, node), cqe_sz=cqe_sz, cs_res=cs_res)
        two.post_recv(memory.sge())
        one.send(source.sge(0, 20))
        node.settle()
        clock.advance(2_000_000)
        node.settle()
        found += two.cq.drain()
    corrupted, late, failed = found
    assert (corrupted.srqn, corrupted.scattered) == (5, TEXT[:20])
    assert late.scattered == TEXT[:20]
    assert failed.opcode == CqeOpcode.RESP_ERR
