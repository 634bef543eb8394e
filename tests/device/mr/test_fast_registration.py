"""Memory management extensions: fast registration, local and remote invalidation, gappy lists.

The names follow the sentences of the kernel commits that brought the verbs: memory management
extensions (00f7ec36c9) and arbitrary scatter lists for mlx5 (the SG_GAPS registration).
"""

import pytest

from emu.driver.keys.by_command import dma_key
from emu.driver.keys.umr import FREE, MUST_NOT_BE_FREE, FastRegKey, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpState, QpType

IOVA = 0x1234_0000_0000
DATA = bytes(range(256)) * 32


@pytest.fixture
def source(node):
    region = node.region(len(DATA))
    region.write(DATA)
    return region


@pytest.fixture
def target(node):
    """Pages that only a fast-registered key reaches."""
    return node.memory.pages(len(DATA))


def read_pages(node, pages):
    return b"".join(node.memory.read(page, 4096) for page in pages)


def test_register_write_invalidate(node, qps, source, target):
    """An MR is made valid by a work request, used, and made invalid by another."""
    left, right = qps
    key = FastRegKey(node)
    key.register(right, target, IOVA, len(DATA), variant=7)
    node.settle()
    left.write((key.key, IOVA), source.sge())
    node.settle()
    assert good(left)
    assert read_pages(node, target)[: len(DATA)] == DATA
    key.invalidate(right)
    node.settle()
    good(right)
    left.write((key.key, IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_key_can_change_with_each_registration(node, qps, source, target):
    """The 8-bit key is the application's: the old key stops working, the new one works."""
    left, right = qps
    key = FastRegKey(node)
    for variant in (1, 2, 255, 0):
        key.register(right, target, IOVA, len(DATA), variant=variant)
        node.settle()
        left.write((key.key, IOVA), source.sge(0, 64))
        key.invalidate(right)
        node.settle()
        good(left)
        good(right)
    key.register(right, target, IOVA, len(DATA), variant=9)
    node.settle()
    left.write((key.index << 8 | 8, IOVA), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_rebinding_to_other_pages(node, qps, source, target):
    """One MR can repeatedly be bound to different page lists."""
    left, right = qps
    other = node.memory.pages(len(DATA))
    key = FastRegKey(node)
    for pages in (target, other):
        key.register(right, pages, IOVA, len(DATA), variant=1)
        node.settle()
        left.write((key.key, IOVA), source.sge())
        node.settle()
        key.invalidate(right)
        node.settle()
        good(left)
    assert read_pages(node, other)[: len(DATA)] == DATA


def test_list_by_pointer_and_first_byte_offset(node, qps, source, target):
    """A long list is read through the domain's own key; the region may start inside a page."""
    left, right = qps
    key = FastRegKey(node, entries=32)
    start = IOVA + 100
    size = len(DATA) - 200
    key.register(right, target, start, size, variant=3, by_pointer=dma_key(node))
    node.settle()
    left.write((key.key, start), source.sge(0, size))
    node.settle()
    good(left)
    assert read_pages(node, target)[100 : 100 + size] == DATA[:size]


@pytest.mark.parametrize("at", [-1, len(DATA) - 63])
def test_bounds_are_the_registered_ones(node, qps, source, target, at):
    left, right = qps
    key = FastRegKey(node)
    key.register(right, target, IOVA, len(DATA), variant=1)
    node.settle()
    left.write((key.key, IOVA + at), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert read_pages(node, target) == bytes(len(target) * 4096)


@pytest.mark.parametrize("right", ["rr", "rw"])
def test_rights_are_the_registered_ones(node, qps, source, target, right):
    left, responder = qps
    key = FastRegKey(node)
    key.register(responder, target, IOVA, len(DATA), variant=1, **{right: 0})
    node.settle()
    action = left.write if right == "rw" else left.read
    action((key.key, IOVA), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_registered_key_serves_local_access_too(node, qps, source, target):
    left, _ = qps
    key = FastRegKey(node)
    key.register(left, target, IOVA, len(DATA), variant=1)
    left.read((source.key, source.va), (len(DATA), key.index << 8 | 1, IOVA))
    node.settle()
    good(left)
    assert read_pages(node, target)[: len(DATA)] == DATA


def test_local_invalidate_is_idempotent(node, qps, target):
    left, _ = qps
    key = FastRegKey(node)
    key.register(left, target, IOVA, len(DATA), variant=1)
    key.invalidate(left)
    key.invalidate(left)
    node.settle()
    assert len(good(left)) == 3


def test_registering_a_valid_key_again_is_a_bind_error(node, qps, target):
    """The consumer must invalidate first: the request wants a free key."""
    left, _ = qps
    key = FastRegKey(node)
    key.register(left, target, IOVA, len(DATA), variant=1)
    key.register(left, target, IOVA, len(DATA), variant=2)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert left.state is QpState.ERR
    assert node.hca.mkeys.get(key.index).variant == 1


def test_incoming_send_with_invalidate(node, qps, source, target):
    """MR made invalid by an incoming send with invalidate; the receiver learns the key."""
    left, right = qps
    inbox = node.region(256)
    key = FastRegKey(node)
    key.register(right, target, IOVA, len(DATA), variant=5)
    node.settle()
    right.post_recv(inbox.sge())
    good(right)
    left.send(source.sge(0, 64), inv_rkey=key.key)
    node.settle()
    good(left)
    (received,) = good(right)
    assert received.opcode == CqeOpcode.RESP_SEND_INV
    assert received.immediate == key.key
    assert inbox.read(0, 64) == DATA[:64]
    left.write((key.key, IOVA), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


@pytest.mark.parametrize(
    "reason", ["variant", "free", "invalidated", "not invalidatable", "no key"]
)
def test_send_with_invalidate_of_a_key_that_does_not_allow_it(node, qps, source, target, reason):
    left, right = qps
    inbox = node.region(256)
    key = FastRegKey(node)
    if reason != "free":
        allowed = int(reason != "not invalidatable")
        key.register(right, target, IOVA, len(DATA), variant=5, en_rinval=allowed)
    if reason == "invalidated":
        key.invalidate(right)
    node.settle()
    good(right)
    right.post_recv(inbox.sge())
    rkey = {"variant": key.key ^ 1, "no key": 0xABCDE00}.get(reason, key.key)
    left.send(source.sge(0, 64), inv_rkey=rkey)
    node.settle()
    assert not left.cq.drain(), "there is no answer, not even a NAK"
    (received,) = right.cq.drain()[:1]
    assert received.opcode == CqeOpcode.RESP_ERR
    assert received.syndrome == CqeSyndrome.LOCAL_ACCESS_ERR
    assert right.state is QpState.ERR
    if reason not in ("free", "invalidated"):
        assert not node.hca.mkeys.get(key.index).free


def test_read_with_invalidate_does_not_exist_here(node, qps, source):
    """RDMA READ with invalidate is iWARP's: InfiniBand has no such opcode."""
    left, _ = qps
    left.post(0x13, bytes(32))
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR


def test_arbitrary_scatter_list(node, qps, source):
    """A KLM list of pieces that start and end anywhere is one contiguous range to the peer."""
    left, right = qps
    lkey = dma_key(node)
    base = node.memory.alloc(3 * 4096)
    pieces = [(1, base + 1999), (300, base + 5), (4096, base + 2000), (3, base + 9001)]
    key = FastRegKey(node, entries=8, mode=AccessMode.KLMS)
    total = sum(size for size, _ in pieces)
    start = pieces[0][1]
    key.register(right, [(size, lkey, at) for size, at in pieces], start, total, variant=1)
    node.settle()
    left.write((key.key, start), source.sge(0, total))
    node.settle()
    good(left)
    done = 0
    for size, at in pieces[:2]:
        assert node.memory.read(at, size) == DATA[done : done + size]
        done += size
    left.read((key.key, start + 1), source.sge(4096, 300))
    node.settle()
    good(left)
    assert source.read(4096, 300) == node.memory.read(base + 5, 300)


@pytest.mark.parametrize("mode", [AccessMode.MTT, AccessMode.KLMS])
def test_a_process_registers_keys_and_no_physical_addresses(node, mode):
    ends = [node.queue_pair(fre=0) for _ in range(2)]
    connect(*ends)
    key = FastRegKey(node, mode=mode)
    entries = [0x1000] * 4 if mode == AccessMode.MTT else [(4096, 0x100, 0)] * 4
    key.register(ends[0], entries, IOVA, 4096, variant=1)
    if mode == AccessMode.MTT:
        assert failure(ends[0]) == CqeSyndrome.MW_BIND_ERR
    else:
        node.settle()
        good(ends[0])
    assert node.hca.mkeys.get(key.index).free == (mode == AccessMode.MTT)


@pytest.mark.parametrize("mode", [AccessMode.MTT, AccessMode.KLMS])
def test_list_longer_than_the_key_is_refused(node, qps, mode):
    left, _ = qps
    key = FastRegKey(node, entries=4, mode=mode)
    entries = [0x1000] * 12 if mode == AccessMode.MTT else [(4096, 0x100, 0)] * 8
    key.register(left, entries, IOVA, 4096, variant=1)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert node.hca.mkeys.get(key.index).free


def test_padding_beyond_the_key_is_tolerated(node, qps, source, target):
    """The driver pads lists to 64 bytes, which may be more than the key has room for."""
    left, right = qps
    key = FastRegKey(node, translations_octword_size=1)
    key.register(right, target[:1], IOVA, 4096, variant=1)
    node.settle()
    left.write((key.key, IOVA), source.sge(0, 4096))
    node.settle()
    assert good(left)


def test_key_of_another_domain_cannot_be_registered(node, qps, target):
    left, _ = qps
    other = node.driver.alloc_pd()
    key = FastRegKey(node, pd=other)
    key.register(left, target, IOVA, len(DATA), variant=1)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR


def test_key_that_is_not_open_to_umr(node, qps, source):
    left, _ = qps
    umr(left, source.key, flags=0, mask=FREE, free=1)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert not node.hca.mkeys.get(source.index).free


def test_update_of_a_free_key_is_refused(node, qps):
    left, _ = qps
    key = FastRegKey(node)
    umr(left, key.key, flags=MUST_NOT_BE_FREE, mask=FREE, free=0)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert node.hca.mkeys.get(key.index).free


@pytest.mark.parametrize("name", ["relaxed_ordering_write", "relaxed_ordering_read"])
def test_any_order_of_writes_or_reads(node, driver, qps, source, target, name):
    """mlx5_ib sets it by UMR (mr.c: mlx5r_umr_get_xlt, umr.c: get_umr_update_access_mask)."""
    left, right = qps
    key = FastRegKey(node)
    for is_on in (1, 0):
        umr(right, key.key, flags=0, mask=MkeyMask[name.upper()] | FREE, free=1, **{name: is_on})
        node.settle()
        assert good(right)
        context = driver.must(Op.QUERY_MKEY, mkey_index=key.index).memory_key_mkey_entry
        assert getattr(context, name) == is_on
        key.register(right, target, IOVA, len(DATA), variant=1)
        node.settle()
        left.write((key.key, IOVA), source.sge())
        left.read((key.key, IOVA), source.sge())
        node.settle()
        assert good(left)
        assert read_pages(node, target)[: len(DATA)] == DATA
        key.invalidate(right)
        node.settle()
        good(right)


@pytest.mark.parametrize("mask", [1 << 2, 1 << 63, 1 << 10])
def test_mask_bits_that_nothing_stands_behind(node, qps, mask):
    left, _ = qps
    key = FastRegKey(node)
    umr(left, key.key, flags=0, mask=mask)
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR


def test_list_behind_a_bad_pointer(node, qps, target):
    left, _ = qps
    key = FastRegKey(node)
    key.register(left, target, IOVA, len(DATA), variant=1, by_pointer=0xBAD00)
    assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR
    assert node.hca.mkeys.get(key.index).free


def test_umr_queue_pair_moves_keys_between_domains(node, driver, source, target):
    """The driver's own queue pair enables a key for a user's domain and takes it back."""
    umr_pd = driver.alloc_pd()
    qp = node.queue_pair(QpType.REG_UMR, pd=0, rq_type=3)
    driver.must(Op.RST2INIT_QP, qpn=qp.qpn, qpc={"primary_address_path": {"vhca_port_num": 1}})
    driver.must(Op.INIT2RTR_QP, qpn=qp.qpn, qpc={"mtu": 5, "log_msg_max": 12})
    driver.must(Op.RTR2RTS_QP, qpn=qp.qpn, qpc={})
    key = FastRegKey(node, pd=umr_pd)
    umr(qp, key.key, flags=0x20, mask=1 << 7 | FREE, pd=node.pdn, free=0)
    node.settle()
    good(qp)
    assert node.hca.mkeys.get(key.index).pd.handle == node.pdn
    umr(qp, key.key, flags=0, mask=1 << 7 | FREE, pd=umr_pd, free=1)
    node.settle()
    good(qp)
    driver.must(Op.DESTROY_MKEY, mkey_index=key.index)
    driver.must(Op.DEALLOC_PD, pd=umr_pd)


def test_loop_of_keys_ends(node, qps, source):
    """Keys that lead to themselves are refused at the advertised depth."""
    left, right = qps
    key = FastRegKey(node, mode=AccessMode.KLMS)
    key.register(right, [(4096, key.index << 8 | 1, IOVA)], IOVA, 4096, variant=1)
    node.settle()
    good(right)
    left.write((key.key, IOVA), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
