"""Multi-packet send requests: one WQE, a frame for each segment (core/en_tx.c, core/en/xdp.c)."""

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.port import MAX_MTU
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import MTU_OVERHEAD, alloc_td, create_tis, set_mtu
from emu.driver.ethernet.rings import sq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.keys.by_command import indirect_key
from emu.driver.verbs.segments import SIGNALED
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.wq import SqState
from layouts.enums.wqe import EthChecksum, Opcode

MPW = Opcode.ENHANCED_MPSW
BOTH = EthChecksum.L3 | EthChecksum.L4
LARGEST_MTU = MAX_MTU - MTU_OVERHEAD
LONGEST = LARGEST_MTU + ETHERNET_BYTES
"""Bytes of a frame at the largest MTU."""
MAX_PACKETS = 58
"""What the driver puts into one WQE: 15 blocks (core/en_tx.c: mlx5e_tx_mpwqe_is_full)."""


@pytest.fixture
def region(node):
    return node.region(1 << 18, va=0x10000)


@pytest.fixture
def put(region):
    """Put a frame into the region; the segment that names it."""
    end = 0

    def into(data):
        nonlocal end
        at, end = end, end + len(data)
        region.write(data, at)
        return len(data), region.key, region.va + at

    return into


@pytest.fixture
def sent(node, eth_wire):
    def look():
        node.settle()
        return eth_wire.sent()

    return look


def frames(count, size=40):
    return [EthPacket(protocol=UDP, chain=UDP, payload=bytes((n,)) * size).frame()
            for n in range(count)]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 13, MAX_PACKETS])
def test_each_segment_is_a_frame(sq, put, sent, count):
    wanted = frames(count)
    index = sq.send(*map(put, wanted), opcode=MPW)
    assert [one.data for one in sent()] == wanted
    (done,) = sq.cq.drain()
    assert (done.opcode, done.wqe_counter) == (CqeOpcode.REQ, index)


@pytest.mark.parametrize(
    "sizes",
    [(6000, 6000), (100, 6000), (4000,) * 3, (LONGEST,) * 20, (60, LONGEST) * 10],
    ids=lambda sizes: f"{len(sizes)} of {sizes[0]} and {sizes[1]}",
)
def test_long_frames_leave_together(driver, sq, put, sent, sizes):
    """Each frame is as long as the MTU allows, whatever those before it have taken."""
    set_mtu(driver, LARGEST_MTU)
    wanted = [(MACS + b"\x88\xb5").ljust(size, bytes((n,))) for n, size in enumerate(sizes)]
    index = sq.send(*map(put, wanted), opcode=MPW)
    assert [one.data for one in sent()] == wanted
    (done,) = sq.cq.drain()
    assert (done.opcode, done.wqe_counter) == (CqeOpcode.REQ, index)
    assert sq.query().state == SqState.RDY


def test_inline_packets_among_others(sq, put, sent):
    """As XDP sends small packets when many are outstanding."""
    one, two, three, four = frames(4, 18)
    sq.send(one, put(two), three, put(four), opcode=MPW)
    assert [frame.data for frame in sent()] == [one, two, three, four]


def test_short_packets_are_padded(sq, put, sent):
    arp = MACS + b"\x08\x06" + bytes(range(28))
    sq.send(put(arp), arp, opcode=MPW)
    assert [frame.data for frame in sent()] == [arp.ljust(60, b"\0")] * 2


@pytest.mark.parametrize("cs_flags", [0, EthChecksum.L4, BOTH])
def test_checksums_hold_for_all(sq, put, sent, cs_flags):
    wanted = frames(3)
    raw = [frame[:40] + b"\0\0" + frame[42:] for frame in wanted]
    sq.send(*map(put, raw), opcode=MPW, cs_flags=cs_flags)
    left = sent()
    assert [frame.checked for frame in left] == [cs_flags == BOTH] * 3
    if cs_flags == EthChecksum.L4:
        assert [frame.data for frame in left] == wanted


def test_a_tag_for_all(sq, put, sent):
    one, two = frames(2)
    sq.send(put(one), put(two), opcode=MPW, vlan=0x2005)
    tag = b"\x81\0\x20\x05"
    assert [frame.data for frame in sent()] == [f[:12] + tag + f[12:] for f in (one, two)]


def test_the_port_counts_each(sq, put, sent, hca):
    sq.send(*map(put, frames(5)), opcode=MPW)
    sent()
    assert hca.nic_vport.sent.packets == 5


def test_followed_by_other_requests(sq, put, sent):
    """The next request begins where this one's blocks end, not those that were reserved."""
    wanted = frames(6)
    sq.send(*map(put, wanted[:3]), opcode=MPW, flags=0, ring=False)
    sq.send(put(wanted[3]), ring=False)
    last = sq.send(*map(put, wanted[4:]), opcode=MPW)
    assert [frame.data for frame in sent()] == wanted
    assert [done.wqe_counter for done in sq.cq.drain()][-1] == last


def failed(sq):
    *_, last = sq.cq.drain()
    return last.opcode, last.syndrome


def test_what_is_before_a_bad_segment_has_left(sq, put, sent):
    one, two, three = map(put, frames(3))
    sq.send(one, (two[0], 0x12300, two[2]), three, opcode=MPW)
    assert len(sent()) == 1
    assert failed(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_PROT_ERR)
    assert sq.query().state == SqState.ERR


@pytest.mark.parametrize(
    ("segments", "syndrome"),
    [
        ([], CqeSyndrome.LOCAL_QP_OP_ERR),
        ([bytes(13)], CqeSyndrome.LOCAL_QP_OP_ERR),
        ([0], CqeSyndrome.LOCAL_LENGTH_ERR),
        ([1 << 20], CqeSyndrome.LOCAL_LENGTH_ERR),
        ([b""], CqeSyndrome.LOCAL_LENGTH_ERR),
    ],
)
def test_segments_that_make_no_frame(driver, sq, put, sent, segments, syndrome):
    """A number stands for so many bytes by the reserved lkey."""
    key = driver.must(Op.QUERY_SPECIAL_CONTEXTS).resd_lkey
    sq.send(*[(one, key, 0) if isinstance(one, int) else one for one in segments], opcode=MPW)
    assert sent() == []
    assert failed(sq) == (CqeOpcode.REQ_ERR, syndrome)


def test_all_frames_together_have_as_many_pieces_as_one_may(node, sq, region, sent):
    """They are put together in one turn, however many there are."""
    size = 1000
    region.write(frames(1, size)[0])
    ranges = [(1, region.key, region.va + at) for at in range(size)]
    key = indirect_key(node, AccessMode.KLMS, ranges, size)
    sq.send(*[(size, key, 0)] * 8, opcode=MPW)
    assert len(sent()) == STEPS_PER_ACCESS // size
    assert failed(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_PROT_ERR)


def test_inline_segment_that_leaves_the_request(sq, sent):
    segment = (1 << 31 | 200).to_bytes(4, "big") + bytes(12)
    sq.post(MPW, bytes(16) + segment, flags=SIGNALED)
    assert sent() == []
    assert failed(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)


def test_inline_headers_are_refused(sq, put, sent):
    sq.send(put(frames(1)[0]), opcode=MPW, headers=frames(1)[0][:18])
    assert sent() == []
    assert failed(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)


def test_a_queue_may_say_that_it_sends_them(node, sq, put, sent):
    """DPDK sets the bit, mlx5e does not."""
    queue = SendQueue(
        node, tisn=create_tis(node.driver, alloc_td(node.driver)), allow_multi_pkt_send_wqe=1
    )
    queue.send(put(frames(1)[0]), opcode=MPW)
    assert len(sent()) == 1


@pytest.mark.parametrize("model", [LINKS["connectx4lx"][PortType.ETH]])
def test_an_adapter_without(node, sq, put, sent, refused):
    fields, _ = sq_fields(node.driver, node.pdn, sq.cq.cqn, allow_multi_pkt_send_wqe=1)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_SQ, **fields)
    sq.send(put(frames(1)[0]), opcode=MPW)
    assert sent() == []
    assert failed(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)
