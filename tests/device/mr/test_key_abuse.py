"""Memory keys in a hostile driver's hands: each refusal's syndrome, and that nothing changed."""

from dataclasses import replace

import pytest
from helpers.device.snapshot import freeze

from emu.driver.keys.by_command import dma_key
from emu.driver.keys.umr import (
    ANY_QPN,
    FREE,
    LEN,
    MUST_BE_FREE,
    OFFSET,
    PAGE_SIZE,
    PAGE_SIZE_5,
    PD,
    START,
    FastRegKey,
    MemoryWindow,
    umr,
)
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

IOVA = 0x1234_0000_0000
SIZE = 4096


@pytest.fixture
def source(node):
    region = node.region(SIZE)
    region.write(bytes(range(256)) * 16)
    return region


def state_of(node, key):
    mkey = node.hca.mkeys.get(key.index)
    return bytes(mkey.ctx), bytes(mkey.xlt), mkey.pd, freeze(mkey.signature)


@pytest.fixture
def key(node):
    """A free key for pages, of 16 entries."""
    return FastRegKey(node)


WHOLE = 16 * 8 // 16
"""Octwords of its entries."""


@pytest.mark.parametrize(
    "request_",
    [
        {"mask": 0, "offset": WHOLE, "xlt": b"\1" * 64, "flags": OFFSET},
        {"mask": 0, "offset": WHOLE - 2, "xlt": b"\1" * 64, "flags": OFFSET},
        {"mask": 0, "offset": (1 << 48) - 1, "xlt": b"\1" * 64, "flags": OFFSET},
        {"mask": 0, "offset": 0, "xlt": b"\1" * (16 * 8 + 64), "flags": 0},
        {"mask": START | LEN, "start_addr": (1 << 64) - 1, "len": 2, "flags": 0},
        {"mask": START, "start_addr": (1 << 64) - 1, "flags": 0, "before": {"len": SIZE}},
        {"mask": LEN, "len": (1 << 64) - 1, "flags": 0, "before": {"start_addr": SIZE}},
        {"mask": PAGE_SIZE, "log_page_size": 0, "flags": 0},
        {"mask": PAGE_SIZE, "log_page_size": 11, "flags": 0},
        {"mask": PAGE_SIZE, "log_page_size": 0x20, "flags": 0},
        {"mask": PAGE_SIZE_5, "log_page_size": 12, "flags": 0, "before": {"log_page_size": 0x20}},
        {"mask": FREE, "free": 0, "flags": 0, "before": {"len": SIZE}},
        {"mask": PD, "pd": 0x77, "flags": 0},
        {"mask": 0, "offset": WHOLE + 4, "xlt": bytes(64), "flags": OFFSET},
        {"mask": 0, "xlt": bytes(64), "flags": 0, "before": {"entries": 0, "mode": AccessMode.PA}},
    ],
    ids=[
        "behind the list", "over its end", "offset as far as it goes", "longer than the list",
        "wraps", "start wraps", "length wraps", "pages of a byte", "pages too small",
        "sixth bit of the page size, not asked for", "sixth bit away", "no page size", "no domain",
        "padding behind the list", "padding without a list",
    ],
)  # fmt: skip
def test_update_that_leaves_the_key(node, qps, request_):
    """A bind error, an error state, and not one bit of the key changed."""
    left, _ = qps
    request_ = dict(request_)
    key = FastRegKey(node, **request_.pop("before", {}))
    before = state_of(node, key)
    umr(left, key.key, **request_)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert left.state is QpState.ERR
    assert state_of(node, key) == before


def test_key_without_a_list_changes_nevertheless(node, qps):
    left, _ = qps
    key = FastRegKey(node, 0, AccessMode.PA)
    umr(left, key.key, flags=0, mask=LEN, len=SIZE)
    node.settle()
    good(left)
    assert node.hca.mkeys.get(key.index).ctx.len == SIZE


def test_domain_that_the_key_has_already(node, qps, key):
    """Naming it moves nothing; another one is for the driver's own queue pair to name."""
    left, _ = qps
    umr(left, key.key, flags=0, mask=PD, pd=node.pdn)
    node.settle()
    good(left)
    before = state_of(node, key)
    umr(left, key.key, flags=0, mask=PD, pd=node.driver.alloc_pd())
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert state_of(node, key) == before


def test_driver_moves_a_key_to_a_domain_that_there_is(node, key):
    qp = node.queue_pair(QpType.REG_UMR, pd=0, rq_type=3)
    qp.init().to_rtr().to_rts()
    other = node.driver.alloc_pd()
    umr(qp, key.key, flags=0, mask=PD, pd=other)
    node.settle()
    good(qp)
    assert node.hca.mkeys.get(key.index).pd.handle == other
    before = state_of(node, key)
    umr(qp, key.key, flags=0, mask=PD, pd=0x77)
    assert failure(qp) == CqeSyndrome.MW_BIND_ERR
    assert state_of(node, key) == before


@pytest.mark.parametrize("what", ["no such key", "not open to UMR", "other domain", "not free"])
def test_key_that_may_not_be_changed(node, qps, source, what):
    left, _ = qps
    key = FastRegKey(
        node, **{"not open to UMR": {"umr_en": 0}, "not free": {"free": 0}}.get(what, {}),
        **({"pd": node.driver.alloc_pd()} if what == "other domain" else {}),
    )  # fmt: skip
    before = state_of(node, key)
    target = 0xABCD00 if what == "no such key" else key.key
    umr(left, target, flags=MUST_BE_FREE, mask=FREE | LEN, free=0, len=SIZE)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert left.state is QpState.ERR
    assert state_of(node, key) == before


@pytest.mark.parametrize("ds", [1, 4, 7])
def test_request_that_ends_too_early(node, qps, key, ds):
    left, _ = qps
    before = state_of(node, key)
    left.post(0x25, bytes(16 * (ds - 1)), imm=key.key)
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR
    assert state_of(node, key) == before


def test_list_that_leaves_the_request(node, qps, key):
    left, _ = qps
    before = state_of(node, key)
    umr(left, key.key, flags=0, mask=FREE, free=0, xlt=b"\1" * 64, octwords=8)
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR
    assert state_of(node, key) == before


# Keys below keys.


def chain(node, qp, below, depth):
    """So many lists of one entry on top of each other; the key on top."""
    key, va = below
    for number in range(depth):
        mode = (AccessMode.KLMS, AccessMode.KSM)[number % 2]
        link = FastRegKey(node, entries=4, mode=mode)
        link.register(qp, [(SIZE, key, va)], IOVA, SIZE, variant=1, log_page_size=12)
        key, va = link.key, IOVA
    node.settle()
    good(qp)
    return key


def test_lists_as_deep_as_advertised_and_no_deeper(node, qps, source):
    left, right = qps
    most = node.driver.caps.max_indirection
    target = node.region(SIZE, va=IOVA)
    left.write((chain(node, right, (target.key, IOVA), most), IOVA), source.sge())
    node.settle()
    good(left)
    assert target.read() == source.read()
    left.write((chain(node, right, (target.key, IOVA), most + 1), IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_keys_in_a_circle(node, qps, source, length):
    """Nothing is found, however long the circle; the responder stops and says so."""
    left, right = qps
    keys = [FastRegKey(node, entries=4, mode=AccessMode.KLMS) for _ in range(length)]
    for number, key in enumerate(keys):
        following = keys[(number + 1) % length]
        key.register(right, [(SIZE, following.index << 8 | 1, IOVA)], IOVA, SIZE, variant=1)
    node.settle()
    good(right)
    node.events()
    left.write((keys[0].key, IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert (left.state, right.state) == (QpState.ERR, QpState.ERR)
    assert (EventType.WQ_ACCESS_ERROR, right.qpn) in node.events()


def test_wide_and_deep_is_bounded(node, qps, source):
    """Each list names the one below thousands of times: no access takes that long."""
    left, right = qps
    key, va = source.key, source.va
    for _ in range(3):
        link = FastRegKey(node, entries=1024, mode=AccessMode.KLMS)
        pieces = [(1, key, va)] * 1024
        link.register(right, pieces, IOVA, 1024, variant=1, by_pointer=dma_key(node))
        key, va = link.key, IOVA
    node.settle()
    good(right)
    left.write((key, IOVA), source.sge(0, 1024))
    node.settle()
    good(left)


@pytest.mark.parametrize("va", [(1 << 64) - 8, (1 << 64) - SIZE])
def test_entry_that_runs_over_the_end_of_all_addresses(node, qps, source, va):
    left, right = qps
    everything = node.driver.create_mkey(node.pdn, rr=1, rw=1) << 8
    key = FastRegKey(node, entries=4, mode=AccessMode.KLMS)
    key.register(right, [(SIZE * 2, everything, va)], IOVA, SIZE * 2, variant=1)
    node.settle()
    good(right)
    left.write((key.key, IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_list_names_a_key_of_another_domain(node, qps, source):
    """Each key below is checked as an access of its own, in the domain of the one above."""
    left, right = qps
    foreign = node.region(SIZE, va=IOVA, pd=node.driver.alloc_pd())
    key = FastRegKey(node, entries=4, mode=AccessMode.KLMS)
    key.register(right, [(SIZE, foreign.key, IOVA)], IOVA, SIZE, variant=1)
    left.write((key.key, IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert foreign.read() == bytes(SIZE)


# Windows.


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("wrong", ["key", "tag", "domain", "write right"])
def test_window_over_a_region_that_does_not_allow_it(node, qps, source, kind, wrong):
    """The region is looked at when somebody comes through the window."""
    left, right = qps
    context = {"domain": {"pd": node.driver.alloc_pd()}, "write right": {"lw": 0}}
    region = node.region(SIZE, va=IOVA, rr=0, rw=0, **context.get(wrong, {}))
    window = MemoryWindow(node, kind)
    if wrong in ("key", "tag"):
        region.key ^= 0x100000 if wrong == "key" else 1
    window.bind(right, region, 0, SIZE)
    node.settle()
    good(right)
    left.write((window.key, IOVA), source.sge())
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert right.state is QpState.ERR
    assert region.read() == bytes(SIZE)


@pytest.mark.parametrize("kind", [1, 2])
def test_window_of_another_domain_is_not_bound(node, source, kind):
    window = MemoryWindow(node, kind)
    mkey = node.hca.mkeys.get(window.index)
    other = node.driver.alloc_pd()
    stranger, peer = node.queue_pair(pd=other), node.queue_pair(pd=other)
    connect(stranger, peer)
    before = state_of(node, window)
    window.bind(stranger, source, 0, 64)
    assert failure(stranger) == CqeSyndrome.MW_BIND_ERR
    assert state_of(node, window) == before
    assert mkey.qpn == ANY_QPN


class TestType2A:
    """A window that belongs to a queue pair and to no domain."""

    @pytest.fixture(params=[False, True], ids=["2B", "2A"])
    def options(self, request, options):
        return replace(options, windows_2a=request.param)

    def test_domain_is_not_compared(self, node, qps, options, source):
        """On XRC a request works in the domain of the queue that it names, not of the window."""
        channel = Channel(QpType.XRC, node, node)
        region = node.region(SIZE, va=IOVA)
        window = MemoryWindow(node, 2)
        window.bind(qps[1], region, 0, SIZE, qpn=channel.receiver.qpn)
        node.settle()
        good(qps[1])
        node.hca.srqs.get(channel.srqn).pd = node.hca.pds.get(node.driver.alloc_pd())
        channel.sender.write((window.key, IOVA), source.sge(), xrc_srqn=channel.srqn)
        if options.windows_2a:
            node.settle()
            good(channel.sender)
            assert region.read() == source.read()
        else:
            assert failure(channel.sender) == CqeSyndrome.REMOTE_ACCESS_ERR

    def test_queue_pair_is_compared(self, node, qps, source):
        _, right = qps
        others = node.queue_pair(), node.queue_pair()
        connect(*others)
        region = node.region(SIZE, va=IOVA)
        window = MemoryWindow(node, 2)
        window.bind(right, region, 0, SIZE)
        node.settle()
        others[0].write((window.key, IOVA), source.sge())
        assert failure(others[0]) == CqeSyndrome.REMOTE_ACCESS_ERR
