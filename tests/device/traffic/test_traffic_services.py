"""Every send opcode on every transport service: what it moves, and where it is refused."""

import pytest

from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.driver.verbs.segments import SIGNALED, SOLICITED
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import ATOMIC, DATA, MASKED_ATOMIC, RADDR, XRC, av

RC, UC, UD, XRC_QP = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
SERVICES = (RC, UC, UD, XRC_QP)
CONNECTED = (RC, UC, XRC_QP)
RELIABLE = (RC, XRC_QP)
LENGTHS = (0, 1, 63, 64, 4095, 4096)
TEXT = bytes(range(256)) * 32
IMM = 0x1122_3344


def service_id(service):
    return service.name


@pytest.fixture(params=SERVICES, ids=service_id)
def channel(request, ends):
    return Channel(request.param, *ends)


@pytest.fixture
def source(channel):
    region = channel.left.region(len(TEXT), va=0x1000_0000_0123)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(len(TEXT) + GRH_BYTES, va=0x2000_0000_0F00)


def only(*services):
    return pytest.mark.parametrize("channel", services, indirect=True, ids=service_id)


@pytest.mark.parametrize("length", LENGTHS)
def test_send(channel, source, target, length):
    channel.post_recv(target.sge())
    index = channel.send(source.sge(5, length))
    channel.settle()
    (sent,), (received,) = channel.sent(), channel.received()
    assert (sent.wqe_counter, sent.wqe_opcode) == (index, Opcode.SEND)
    assert (sent.qpn, received.qpn) == (channel.sender.qpn, channel.receiver.qpn)
    assert received.opcode == CqeOpcode.RESP_SEND
    assert received.byte_cnt == channel.header + length
    assert target.read(channel.header, length) == TEXT[5:][:length]
    assert not any(target.read(channel.header + length))


def test_send_with_immediate(channel, source, target):
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 16), imm=IMM)
    channel.settle()
    (sent,), (received,) = channel.sent(), channel.received()
    assert sent.wqe_opcode == Opcode.SEND_IMM
    assert (received.opcode, received.immediate) == (CqeOpcode.RESP_SEND_IMM, IMM)
    assert target.read(channel.header, 16) == TEXT[:16]


@only(*CONNECTED)
@pytest.mark.parametrize("length", LENGTHS)
def test_write(channel, source, target, length):
    """The other side's receive queue is not used, and nobody there is told."""
    channel.write((target.key, target.va + 7), source.sge(3, length))
    channel.settle()
    (sent,) = channel.sent()
    assert sent.wqe_opcode == Opcode.RDMA_WRITE
    assert channel.received() == []
    assert target.read(7, length) == TEXT[3:][:length]
    assert not any(target.read(0, 7) + target.read(7 + length))


@only(*CONNECTED)
@pytest.mark.parametrize("length", [0, 100])
def test_write_with_immediate(channel, source, target, length):
    """The receive request is used up for the immediate; its own buffers stay as they are."""
    spare = channel.right.region(64)
    channel.post_recv(spare.sge())
    channel.write((target.key, target.va), source.sge(0, length), imm=IMM)
    channel.settle()
    (sent,), (received,) = channel.sent(), channel.received()
    assert sent.wqe_opcode == Opcode.RDMA_WRITE_IMM
    assert (received.opcode, received.immediate) == (CqeOpcode.RESP_WR_IMM, IMM)
    assert received.byte_cnt == length
    assert target.read(0, length) == TEXT[:length]
    assert not any(spare.read())


@only(*RELIABLE)
@pytest.mark.parametrize("length", LENGTHS)
def test_read(channel, source, target, length):
    target.write(TEXT[::-1][: target.size - GRH_BYTES])
    before = target.read()
    channel.read((target.key, target.va + 9), source.sge(11, length))
    channel.settle()
    (sent,) = channel.sent()
    assert (sent.wqe_opcode, sent.byte_cnt) == (Opcode.RDMA_READ, length)
    assert source.read(11, length) == before[9:][:length]
    assert source.read(0, 11) + source.read(11 + length) == TEXT[:11] + TEXT[11 + length :]
    assert target.read() == before


MASKED = ("masked_compare_swap", "masked_fetch_add")


def number(region, at):
    return int.from_bytes(region.read(at, 8), "little")


@only(*RELIABLE)
def test_compare_and_swap(channel, source, target):
    target.write((5).to_bytes(8, "little"), at=256)
    remote = (target.key, target.va + 256)
    channel.compare_swap(remote, source.sge(0, 8), compare=4, swap=9)
    channel.compare_swap(remote, source.sge(8, 8), compare=5, swap=9)
    channel.settle()
    assert [found.wqe_opcode for found in channel.sent()] == [Opcode.ATOMIC_CS] * 2
    assert (number(source, 0), number(source, 8), number(target, 256)) == (5, 5, 9)


@only(*RELIABLE)
def test_fetch_and_add(channel, source, target):
    target.write(bytes([0xFF] * 8), at=256)
    remote = (target.key, target.va + 256)
    channel.fetch_add(remote, source.sge(0, 8), 3)
    channel.fetch_add(remote, source.sge(8, 8), 1)
    channel.settle()
    assert [found.wqe_opcode for found in channel.sent()] == [Opcode.ATOMIC_FA] * 2
    assert (number(source, 0), number(source, 8), number(target, 256)) == ((1 << 64) - 1, 2, 3)


@only(*RELIABLE)
def test_atomics_in_the_byte_order_that_the_driver_chose(channel, source, target):
    """Mode 0 means big-endian operands in memory (core/main.c: handle_hca_cap_atomic)."""
    for node in (channel.left, channel.right):
        node.hca.caps.atomic.atomic_req_8B_endianness_mode = 0
    target.write((5).to_bytes(8, "big"), at=256)
    channel.fetch_add((target.key, target.va + 256), source.sge(0, 8), 3)
    channel.settle()
    assert channel.sent()
    assert source.read(0, 8) == (5).to_bytes(8, "big")
    assert target.read(256, 8) == (8).to_bytes(8, "big")


@only(*RELIABLE)
@pytest.mark.parametrize("size", [4, 8])
def test_masked_compare_and_swap(channel, source, target, size):
    """Only some bits are compared, and others are swapped; the old value comes either way."""
    target.write((0x1234_5678).to_bytes(8, "little"), at=256)
    remote = (target.key, target.va + 256)
    for place, compare in ((0, 0xFF5F), (8, 0xFF7F)):
        sge = source.sge(place, size)
        channel.masked_compare_swap(remote, sge, compare, 0xABCD_EF09, (0xF0, 0xFF00_00FF))
    channel.settle()
    assert [found.wqe_opcode for found in channel.sent()] == [Opcode.ATOMIC_MASKED_CS] * 2
    assert [answer(source, at, size) for at in (0, 8)] == [0x1234_5678] * 2
    assert number(target, 256) == 0xAB34_5609


@only(*RELIABLE)
@pytest.mark.parametrize(
    ("size", "before", "add", "boundary", "after"),
    [
        (8, (1 << 64) - 1, 2, 0, 1),
        (8, 0x00FF_FFFF_FFFF_FFFF, 1, 1 << 31, 0x00FF_FFFF_0000_0000),
        (8, 0x1010_FFFF, 0x1_0001, 0x8000_8000, 0x1011_0000),
        (8, 0xF0F0, 0xFFFF, (1 << 64) - 1, 0x0F0F),  # each bit of its own: an exclusive or
        (4, 0x7_FFFF_FFFF, 1, 0, 0x7_0000_0000),
        (4, 0x7_FFFF_FFFF, 0x1_0001, 0x8000_8000, 0x7_0000_0000),
        (4, 0x7_FFFF_FFFF, 1, 1 << 7, 0x7_FFFF_FF00),
    ],
)
def test_masked_fetch_and_add(channel, source, target, size, before, add, boundary, after):
    """No carry goes over the top bit of a field, nor out of the operand."""
    target.write(before.to_bytes(8, "little"), at=256)
    channel.masked_fetch_add((target.key, target.va + 256), source.sge(0, size), add, boundary)
    channel.settle()
    assert [found.wqe_opcode for found in channel.sent()] == [Opcode.ATOMIC_MASKED_FA]
    assert answer(source, 0, size) == before & (1 << 8 * size) - 1
    assert number(target, 256) == after


def answer(region, at, size):
    """An old value: the byte order that the driver has chosen is only about eight bytes."""
    return int.from_bytes(region.read(at, size), "little" if size == 8 else "big")


@only(*RELIABLE)
@pytest.mark.parametrize(
    ("op", "opmod", "length"),
    [
        *((op, opmod, 8) for op in MASKED for opmod in (0, 1, 7, 10, 11, 255)),
        *((op, 9, length) for op in MASKED for length in (4, 16)),
        ("masked_fetch_add", 8, 8),
    ],
)
def test_masked_atomic_of_a_size_that_there_is_not(channel, source, target, op, opmod, length):
    target.write(TEXT)
    operands = (0, 5, (0, 0)) if op == "masked_compare_swap" else (5, 0)
    sge = source.sge(0, length)
    getattr(channel, op)((target.key, target.va + 256), sge, *operands, opmod=opmod)
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
    assert (source.read(), target.read(0, len(TEXT))) == (TEXT, TEXT)


def test_nop(channel):
    index = channel.sender.post(Opcode.NOP)
    channel.settle()
    (sent,) = channel.sent()
    assert (sent.wqe_counter, sent.wqe_opcode) == (index, Opcode.NOP)


@only(*CONNECTED)
def test_receiver_learns_who_sent(channel, source, target):
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 4))
    channel.settle()
    (received,) = channel.received()
    assert received.slid == channel.left.lid
    assert received.srqn == (channel.srqn or 0)


@pytest.mark.parametrize("flags", [0, SIGNALED])
def test_completion_only_when_asked_for(channel, source, target, flags):
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 4), flags=flags)
    channel.settle()
    assert len(channel.sent()) == bool(flags)
    assert len(channel.received()) == 1


@pytest.mark.parametrize("flags", [0, SOLICITED])
def test_receiver_sees_who_was_solicited(channel, source, target, flags):
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 4), flags=flags)
    channel.settle()
    assert [found.solicited for found in channel.received()] == [bool(flags)]


def test_requests_complete_in_their_order(channel, source, target):
    """Large and small ones, signalled or not: the receiver sees them as they were posted."""
    lengths = [4096, 1, 0, 700, 64, 4096, 3]
    for number, length in enumerate(lengths):
        channel.post_recv(target.sge())
        channel.send(source.sge(0, length), flags=SIGNALED if number % 2 else 0)
    channel.settle()
    assert [found.byte_cnt - channel.header for found in channel.received()] == lengths
    indices = [found.wqe_counter for found in channel.sent()]
    assert indices == sorted(indices)
    assert len(indices) == len(lengths) // 2


# An opcode that the service does not have.

_SEGMENTS = {
    Opcode.RDMA_WRITE: [RADDR],
    Opcode.RDMA_WRITE_IMM: [RADDR],
    Opcode.RDMA_READ: [RADDR],
    Opcode.ATOMIC_CS: [RADDR, ATOMIC],
    Opcode.ATOMIC_FA: [RADDR, ATOMIC],
    Opcode.ATOMIC_MASKED_CS: [RADDR, MASKED_ATOMIC],
    Opcode.ATOMIC_MASKED_FA: [RADDR, MASKED_ATOMIC],
}
_ALWAYS_ILLEGAL = (Opcode.LSO, Opcode.SET_PSV, Opcode.DUMP, 0x02, Opcode.MMO, 0xFF)
ILLEGAL = [
    *[(service, opcode) for service in SERVICES for opcode in _ALWAYS_ILLEGAL],
    *[(UC, opcode) for opcode in (Opcode.SEND_INVAL, *list(_SEGMENTS)[2:])],
    *[(UD, opcode) for opcode in (Opcode.SEND_INVAL, *_SEGMENTS)],
]


@pytest.mark.parametrize(
    ("channel", "opcode"), ILLEGAL, indirect=["channel"],
    ids=[f"{service.name}-{opcode:#x}" for service, opcode in ILLEGAL],
)  # fmt: skip
def test_opcode_that_the_service_does_not_have(channel, opcode, source, target):
    target.write(TEXT)
    channel.post_recv(target.sge())
    front = {UD: [bytes(av.size)], XRC_QP: [XRC.pack(channel.srqn or 0)]}.get(channel.service, [])
    segments = [
        RADDR.pack(target.va, target.key) if layout is RADDR else bytes(layout.size)
        for layout in _SEGMENTS.get(opcode, [])
    ]
    index = channel.sender.post(opcode, *front, *segments, DATA.pack(*source.sge(0, 8)))
    channel.settle()
    (failed,) = channel.sender.cq.drain()
    assert (failed.opcode, failed.syndrome) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)
    assert (failed.wqe_counter, failed.wqe_opcode) == (index, opcode)
    assert channel.sender.state == (QpState.SQER if channel.service in (UC, UD) else QpState.ERR)
    assert channel.received() == []
    assert (source.read(), target.read(0, len(TEXT))) == (TEXT, TEXT)
