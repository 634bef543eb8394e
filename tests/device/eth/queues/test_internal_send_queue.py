"""Send queues for the driver's own requests: they map receive memory by UMR (core/en_rx.c)."""

import pytest

from emu.device.port.eth.frame import Frame
from emu.driver.command.words import pack64
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS
from emu.driver.ethernet.interfaces import create_direct_tir, create_tis
from emu.driver.ethernet.rings import sq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.keys import umr
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.wq import SqState
from layouts.enums.wqe import Opcode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import DATA, NEXT, wqe_umr_ctrl_seg

WRITABLE = 2
"""Right of a page that mlx5e lets packets into (MLX5_EN_WR)."""
ENTRIES = 8
"""Translations of one receive request: more than the pages that it has, as in the driver."""
PAGE = 4096


class ReceiveKey:
    """The key of a receive queue: free of pages at first, each entry leads to one page of none."""

    def __init__(self, node, requests=4, **context):
        self.node = node
        self.nowhere = node.memory.pages(PAGE)[0]
        entries = requests * ENTRIES
        fields = {
            "pd": node.pdn, "free": 1, "umr_en": 1, "lr": 1, "lw": 1, "qpn": 0xFFFFFF,
            "access_mode_1_0": AccessMode.MTT, "len": entries * PAGE, "log_page_size": 12,
            "translations_octword_size": entries // 2,
        } | context  # fmt: skip
        self.index = node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields,
            translations_octword_actual_size=entries // 2, extra=pack64([self.nowhere] * entries),
        ).mkey_index  # fmt: skip
        self.key = self.index << 8


def request(pages, at, mask=umr.FREE, flags=umr.INLINE | umr.OFFSET):
    """core/en_rx.c: mlx5e_alloc_rx_mpwqe; ``at`` is the first entry."""
    xlt = pack64([page | WRITABLE for page in pages])
    xlt = xlt.ljust(-(-len(xlt) // 64) * 64, b"\0")
    ctrl = wqe_umr_ctrl_seg.new(
        flags=flags, xlt_octowords=len(xlt) // 16, xlt_offset=at // 2, mkey_mask=mask
    )
    return bytes(ctrl.buf) + bytes(mkc.new().buf) + xlt


@pytest.fixture
def icosq(node):
    return SendQueue(node, reg_umr=1)


@pytest.fixture
def key(node):
    return ReceiveKey(node)


def outcome(sq):
    (done,) = sq.cq.drain()
    return done.opcode, done.syndrome


def test_pages_are_mapped_and_packets_go_there(hca, node, driver, td, icosq, key):
    rq = StridingQueue(node, log_size=2, log_count=4, log_stride_size=10)
    table = Flows(driver).table(0, log_size=0)
    Flows(driver).set_root(table)
    group = Flows(driver).group(table, 0, 0)
    Flows(driver).entry(table, 0, group, to_tir(create_direct_tir(driver, td, rq.rqn)))
    pages = node.memory.pages(4 * PAGE)
    icosq.post(Opcode.UMR, request(pages, ENTRIES), imm=key.key)
    rq.ring.write(0, NEXT.pack(1) + DATA.pack(4 * PAGE, key.key, ENTRIES * PAGE))
    node.settle()
    assert outcome(icosq) == (CqeOpcode.REQ, 0)
    rq.post_more()
    frames = [MACS + b"\x08\x06" + bytes([n]) * 900 for n in range(16)]
    for frame in frames:
        arrive(hca, Frame(frame))
    found = [node.memory.read(pages[n // 4] + n % 4 * 1024, 914) for n in range(16)]
    assert found == frames
    assert node.memory.read(key.nowhere, PAGE) == bytes(PAGE)


def test_in_force_before_its_completion(node, icosq, key):
    """Several share one doorbell, the last one only asks for a completion."""
    pages = node.memory.pages(8 * PAGE)
    for number in range(4):
        icosq.post(
            Opcode.UMR, request(pages[2 * number : 2 * number + 2], number * ENTRIES),
            imm=key.key, ring=False, flags=0 if number < 3 else 8,
        )  # fmt: skip
    icosq.ring_doorbell()
    node.settle()
    assert outcome(icosq) == (CqeOpcode.REQ, 0)
    mkey = node.hca.mkeys.need(key.index)
    assert not mkey.free
    written = [mkey.pages.one(entry) for entry in (0, 1, 8, 9, 24, 25)]
    assert written == [pages[n] | WRITABLE for n in (0, 1, 2, 3, 6, 7)]


def test_mapping_again_while_in_force(node, icosq, key):
    """After a recovery of the queue the driver maps keys that are not free."""
    for _ in range(2):
        icosq.post(Opcode.UMR, request(node.memory.pages(PAGE), 0), imm=key.key)
        node.settle()
        assert outcome(icosq) == (CqeOpcode.REQ, 0)


@pytest.mark.parametrize(
    ("body", "imm", "syndrome"),
    [
        (bytes(48), None, CqeSyndrome.LOCAL_QP_OP_ERR),
        (request([0x1000], 0), 0x12300, CqeSyndrome.MW_BIND_ERR),
        (request([0x1000], 2 * 4 * ENTRIES), None, CqeSyndrome.MW_BIND_ERR),
        (request([0x1000], 0, mask=1 << 63), None, CqeSyndrome.LOCAL_QP_OP_ERR),
        (request([0x1000], 0, flags=umr.INLINE | umr.OFFSET | umr.MUST_NOT_BE_FREE), None,
         CqeSyndrome.MW_BIND_ERR),
    ],
)  # fmt: skip
def test_requests_that_cannot_be(node, icosq, key, body, imm, syndrome):
    icosq.post(Opcode.UMR, body, imm=key.key if imm is None else imm)
    node.settle()
    assert outcome(icosq) == (CqeOpcode.REQ_ERR, syndrome)
    assert icosq.query().state == SqState.ERR
    assert node.hca.mkeys.need(key.index).free


def test_key_of_another_domain(node, icosq):
    other = node.driver.must(Op.ALLOC_PD).pd
    key = ReceiveKey(node, pd=other)
    icosq.post(Opcode.UMR, request(node.memory.pages(PAGE), 0), imm=key.key)
    node.settle()
    assert outcome(icosq) == (CqeOpcode.REQ_ERR, CqeSyndrome.MW_BIND_ERR)


def test_a_queue_for_frames_changes_no_keys(node, sq, key):
    sq.post(Opcode.UMR, request(node.memory.pages(PAGE), 0), imm=key.key)
    node.settle()
    assert outcome(sq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)


def test_a_queue_for_keys_sends_no_frames(node, icosq, eth_wire):
    icosq.send(bytes(60))
    node.settle()
    assert outcome(icosq) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)
    assert eth_wire.sent() == []


def test_both(node, td, key, eth_wire):
    """XDP's queues may do both."""
    queue = SendQueue(node, reg_umr=1, tisn=create_tis(node.driver, td))
    queue.post(Opcode.UMR, request(node.memory.pages(PAGE), 0), imm=key.key)
    queue.send(bytes(60))
    node.settle()
    assert [done.opcode for done in queue.cq.drain()] == [CqeOpcode.REQ] * 2
    assert len(eth_wire.sent()) == 1


def test_an_adapter_without(function, node, cq, refused):
    function.hca.caps.ethernet.reg_umr_sq = 0
    fields, _ = sq_fields(node.driver, node.pdn, cq.cqn, reg_umr=1)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_SQ, **fields)
