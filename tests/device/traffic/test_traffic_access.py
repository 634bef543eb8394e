"""Keys that do not allow it: the right syndrome on both sides, memory untouched, others go on."""

import pytest

from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.rings.wqe import ATOMIC, DATA, RADDR

RC, UC, UD, XRC_QP = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
SIZE = 2 * 4096
TEXT = bytes(range(1, 251)) * 32
TOP = 1 << 64
PROT, ACCESS = CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.REMOTE_ACCESS_ERR
OPERATION, INVALID = CqeSyndrome.REMOTE_OP_ERR, CqeSyndrome.REMOTE_INVAL_REQ_ERR


@pytest.fixture
def bystander(ends):
    """A connection that has nothing to do with what goes wrong, and has to work after it."""
    other = Channel(RC, *ends)
    regions = [node.region(64) for node in ends]
    yield other
    other.sent(), other.received()
    other.post_recv(regions[1].sge())
    other.send(b"still here")
    other.settle()
    assert other.sent()
    assert other.received()
    assert regions[1].read(0, 10) == b"still here"


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE, va=0x1000_0000_0800)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE, va=0x2000_0000_0800)


class ForeignKey:
    """A key that is fine but for one thing, by the name of that thing."""

    def __init__(self, node, name, region):
        self.node, self.name, self.region = node, name, region

    def sge(self):
        return getattr(self, "_" + self.name.replace(" ", "_"))(self.region)

    def _unknown_index(self, region):
        return 8, 0x7FFF << 8, region.va

    def _index_zero(self, region):
        return 8, 0, region.va

    def _wrong_variant(self, region):
        return 8, region.key | 1, region.va

    def _destroyed(self, region):
        self.node.driver.must(Op.DESTROY_MKEY, mkey_index=region.index)
        return 8, region.key, region.va

    def _other_domain(self, region):
        own, self.node.pdn = self.node.pdn, self.node.driver.alloc_pd()
        foreign = self.node.region(64)
        self.node.pdn = own
        return 8, foreign.key, foreign.va

    def _no_rights(self, region):
        bare = self.node.region(64, lr=0, lw=0, rr=0, rw=0, a=0)
        return 8, bare.key, bare.va

    def _below(self, region):
        return 8, region.key, region.va - 8

    def _one_byte_below(self, region):
        return 8, region.key, region.va - 1

    def _one_byte_above(self, region):
        return 8, region.key, region.va + SIZE - 7

    def _longer_than_the_region(self, region):
        return SIZE + 8, region.key, region.va

    def _wraps_around(self, region):
        return 8, region.key, TOP - 4

    def _wraps_a_full_key(self, region):
        everything = self.node.region(64, length64=1)
        return 16, everything.key, TOP - 8

    def _page_is_gone(self, region):
        self.node.memory.revoke(region.pages[0])
        return 8, region.key, region.va


NAMES = [
    "unknown index", "index zero", "wrong variant", "destroyed", "other domain", "no rights",
    "below", "one byte below", "one byte above", "longer than the region", "wraps around",
    "wraps a full key", "page is gone",
]  # fmt: skip
bad_key = pytest.mark.parametrize("name", NAMES)


def readable(region, name):
    """What can be read of a region whose key was made foreign: all of it, or all but one page."""
    gone = 4096 - region.va % 4096 if name == "page is gone" else 0
    return region.read(gone, SIZE - gone)


@bad_key
@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
def test_what_is_sent(channel, source, target, bystander, name):
    sge = ForeignKey(channel.left, name, source).sge()
    channel.post_recv(target.sge())
    channel.sender.cq.drain()
    waiting = channel.receiver.state
    channel.send(sge)
    assert channel.failure() == PROT
    assert channel.sender.state == (QpState.SQER if channel.service in (UC, UD) else QpState.ERR)
    assert channel.receiver.state == waiting
    assert channel.received() == []
    assert channel.left.events() == []
    assert target.read() == bytes(SIZE)


@bad_key
def test_where_an_answer_should_go(channel, source, bystander, name):
    sge = ForeignKey(channel.left, name, source).sge()
    target = channel.right.region(2 * SIZE)
    target.write(bytes([0xEE]) * target.size)
    channel.read((target.key, target.va), sge)
    assert channel.failure() == PROT
    if name != "longer than the region":  # packets fill it before one of them fails
        kept = readable(source, name)
        assert kept == TEXT.ljust(SIZE, b"\0")[-len(kept) :]
    assert channel.receiver.state == QpState.RTS


@pytest.mark.parametrize("name", [name for name in NAMES if name != "longer than the region"])
@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
def test_where_a_message_should_go(channel, source, target, bystander, name):
    length, key, va = ForeignKey(channel.right, name, target).sge()
    channel.post_recv((channel.header + length, key, va))
    channel.send(source.sge(0, length))
    if channel.service in (UC, UD):
        channel.settle()
        assert channel.sent()
    else:
        assert channel.failure() == OPERATION
        assert channel.sender.state == QpState.ERR
    assert channel.receive_failure() == PROT
    assert channel.receiver.state == QpState.ERR
    assert not any(readable(target, name))


REMOTE = ["write", "read", "compare_swap", "fetch_add"]


def request(channel, op, key, va, source, length=8):
    remote, sge = (key, va), source.sge(0, length)
    if op == "compare_swap":
        channel.compare_swap(remote, sge, 0, 1)
    elif op == "fetch_add":
        channel.fetch_add(remote, sge, 1)
    else:
        getattr(channel, op)(remote, sge)


ATOMICS = ("compare_swap", "fetch_add")
NOT_EIGHT_ALIGNED_BYTES = (
    "one byte below", "one byte above", "wraps around", "longer than the region", "wraps a full key"
)  # fmt: skip
VIOLATIONS = [
    (op, name)
    for op in REMOTE
    for name in NAMES
    if op not in ATOMICS or name not in NOT_EIGHT_ALIGNED_BYTES
]


@pytest.mark.parametrize(("op", "name"), VIOLATIONS)
@pytest.mark.parametrize("service", [RC, XRC_QP])
def test_remote_access(channel, target, bystander, name, op):
    """The responder's owner gets an event; the requester hears of an access error, no more."""
    source = channel.left.region(2 * SIZE)
    source.write(TEXT)
    before = source.read()
    length, key, va = ForeignKey(channel.right, name, target).sge()
    request(channel, op, key, va, source, length)
    assert channel.failure() == ACCESS
    assert channel.sender.state == channel.receiver.state == QpState.ERR
    assert (EventType.WQ_ACCESS_ERROR, channel.receiver.qpn) in channel.right.events()
    assert source.read() == before
    assert not any(readable(target, name))


@pytest.mark.parametrize(
    ("op", "flag", "rights"),
    [
        ("write", "rwe", {"rw": 0}),
        ("read", "rre", {"rr": 0}),
        ("compare_swap", "rae", {"a": 0}),
        ("fetch_add", "rae", {"a": 0}),
    ],
)
@pytest.mark.parametrize("missing", ["key", "queue pair"])
def test_remote_right_that_is_missing(ends, op, flag, rights, missing):
    """Both the key and the queue pair have to allow the operation.

    To IBTA (9.9.3) the first is an access error, the second an opcode for what the queue pair does
    not support.
    """
    syndrome, event = {
        "key": (ACCESS, EventType.WQ_ACCESS_ERROR),
        "queue pair": (INVALID, EventType.WQ_INVAL_REQ_ERROR),
    }[missing]
    channel = Channel(RC, *ends, **({flag: 0} if missing == "queue pair" else {}))
    source = channel.left.region(64)
    target = channel.right.region(64, **(rights if missing == "key" else {}))
    request(channel, op, target.key, target.va, source)
    assert channel.failure() == syndrome
    assert channel.right.events() == [(event, channel.receiver.qpn)]
    assert not any(source.read() + target.read())


@pytest.mark.parametrize(("op", "needed"), [("write", "rw"), ("read", "rr"), ("fetch_add", "a")])
def test_remote_right_alone_is_enough(channel, source, op, needed):
    """But for the local write that IBTA wants of whoever opens memory for remote changes."""
    only = dict.fromkeys(("lr", "rr", "rw", "a"), 0) | {"lw": int(needed != "rr"), needed: 1}
    target = channel.right.region(64, **only)
    request(channel, op, target.key, target.va, source)
    channel.settle()
    assert channel.sent()


@pytest.mark.parametrize("op", ["write", "read"])
def test_nothing_needs_no_key(channel, op):
    """Zero bytes are granted without a look at the key (IBTA C9-88)."""
    getattr(channel, op)((0xDEAD_BEEF, TOP - 1))
    channel.settle()
    assert channel.sent()


@bad_key
def test_unreliable_write_is_dropped(ends, bystander, name):
    """UC: nobody is told, the sender's request is done, and the next message arrives."""
    channel = Channel(UC, *ends)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(TEXT)
    sge = ForeignKey(channel.right, name, target).sge()
    channel.write(sge[1:], source.sge(0, min(sge[0], SIZE)))
    channel.settle()
    assert len(channel.sent()) == 1
    assert channel.right.events() == []
    assert channel.receiver.state == QpState.RTS
    good = channel.right.region(64)
    channel.write((good.key, good.va), source.sge(0, 64))
    channel.settle()
    assert good.read() == TEXT[:64]


# Requests that make no sense to the responder.


@pytest.mark.parametrize("offset", [1, 4, 7])
@pytest.mark.parametrize("op", ["compare_swap", "fetch_add"])
def test_atomic_that_is_not_aligned(channel, source, target, bystander, op, offset):
    request(channel, op, target.key, target.va + offset, source)
    assert channel.failure() == INVALID
    assert channel.right.events() == [(EventType.WQ_INVAL_REQ_ERROR, channel.receiver.qpn)]
    assert channel.receiver.state == QpState.ERR
    assert not any(target.read())


@pytest.mark.parametrize("room", [0, 4, 7])
def test_atomic_answer_is_eight_bytes(channel, source, target, room):
    segments = [RADDR.pack(target.va, target.key), ATOMIC.pack(1, 0)]
    channel.sender.post(0x12, *segments, *([DATA.pack(*source.sge(0, room))] if room else []))
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
    assert not any(target.read())


@pytest.mark.parametrize("pieces", [(9,), (16,), (3, 100), (8, 8)])
def test_atomic_answer_with_more_room_than_it_takes(channel, source, target, pieces):
    """Real cards write eight bytes and leave the rest of the data segments alone."""
    target.write((41).to_bytes(8, "little"))
    before, ends = source.read(), [sum(pieces[: at + 1]) for at in range(len(pieces))]
    sges = [source.sge(end - size, size) for end, size in zip(ends, pieces, strict=True)]
    segments = [RADDR.pack(target.va, target.key), ATOMIC.pack(1, 0)]
    channel.sender.post(0x12, *segments, *(DATA.pack(*sge) for sge in sges))
    channel.settle()
    (done,) = channel.sent()
    assert (done.syndrome, done.byte_cnt) == (0, 8)
    assert source.read() == (41).to_bytes(8, "little") + before[8:]
    assert target.read(0, 8) == (42).to_bytes(8, "little")


@pytest.mark.parametrize("wrong", ["unknown", "other domain", "no domain"])
@pytest.mark.parametrize("op", ["send", "write", "read", "fetch_add"])
def test_shared_queue_that_the_sender_may_not_name(ends, bystander, op, wrong):
    channel = Channel(XRC_QP, *ends)
    source, target = channel.left.region(64), channel.right.region(64)
    other = {
        "unknown": lambda: 0x77,
        "other domain": lambda: Channel(XRC_QP, *ends).srqn,
        "no domain": lambda: channel.right.shared_queue().srqn,
    }[wrong]
    channel.srqn = other()
    if op == "send":
        channel.send(source.sge(0, 8))
    else:
        request(channel, op, target.key, target.va, source)
    assert channel.failure() == INVALID
    assert (EventType.WQ_INVAL_REQ_ERROR, channel.receiver.qpn) in channel.right.events()


def test_keys_of_an_xrc_request_are_those_of_the_shared_queue(ends):
    """The target's own domain does not matter: the driver puts all of them into one."""
    left, right = ends
    own, right.pdn = right.pdn, right.driver.alloc_pd()
    channel = Channel(XRC_QP, left, right)
    channel.right.driver.must(Op.QUERY_QP, qpn=channel.receiver.qpn)
    inside, source = right.region(64), left.region(64)
    right.pdn = own
    outside = right.region(64)
    channel.write((inside.key, inside.va), b"x" * 8)
    channel.settle()
    assert channel.sent()
    assert inside.read(0, 8) == b"x" * 8
    request(channel, "write", outside.key, outside.va, source)
    assert channel.failure() == ACCESS


class TestPlaceOfTheAnswer:
    """Nobody looks at the memory that an answer goes to before it comes.

    So Google's rdma-unit-test says of ConnectX (LoopbackRcQpTest.CompareSwapInvalidLKey).
    """

    @pytest.fixture
    def closed(self, channel):
        """Memory that the adapter must not write to."""
        return channel.left.region(SIZE, lw=0)

    def test_an_atomic_is_done_all_the_same(self, channel, target, closed):
        target.write(bytes(8))
        channel.fetch_add((target.key, target.va), closed.sge(0, 8), 5)
        assert channel.failure() == PROT
        assert int.from_bytes(target.read(0, 8), "little") == 5

    def test_a_read_fails_only_here(self, channel, target, closed):
        channel.read((target.key, target.va), closed.sge(0, 100))
        assert channel.failure() == PROT
        assert channel.receiver.state is QpState.RTS
        assert closed.read() == bytes(SIZE)

    @pytest.mark.parametrize("key", ["remote", "both"])
    def test_what_the_peer_says_comes_first(self, channel, target, closed, key):
        place = closed if key == "both" else channel.left.region(SIZE)
        channel.read((target.key ^ 1, target.va), place.sge(0, 100))
        assert channel.failure() == ACCESS

    def test_an_atomic_at_an_odd_place(self, channel, target, closed):
        channel.fetch_add((target.key, target.va + 1), closed.sge(0, 8), 5)
        assert channel.failure() == INVALID
