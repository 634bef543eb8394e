"""Memory windows, sentence by sentence of the kernel commit that brought type 2 to the verbs."""

import pytest

from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.umr import MemoryWindow, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpState

KLM = AccessMode.KLMS
DATA = bytes(range(256)) * 8


@pytest.fixture
def source(node):
    region = node.region(len(DATA))
    region.write(DATA)
    return region


@pytest.fixture
def region(node):
    """The region under the windows; remote peers have no rights on it themselves."""
    return node.region(2 * 4096, va=0x5550_0000_0800, rr=0, rw=0)


@pytest.fixture(params=[1, 2])
def window(request, node):
    return MemoryWindow(node, request.param)


def test_window_gives_access_to_a_part_of_a_region(node, qps, window, region, source):
    """More flexible control over remote access: a window opens what the region does not."""
    left, right = qps
    window.bind(right, region, 100, 1000)
    node.settle()
    left.write((window.key, region.va + 100), source.sge(0, 1000))
    left.read((window.key, region.va + 612), source.sge(1024, 488))
    node.settle()
    assert good(left)
    assert region.read(100, 1000) == DATA[:1000]
    assert source.read(1024, 488) == DATA[512:1000]
    left.write((region.key, region.va + 100), source.sge(0, 8))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


@pytest.mark.parametrize(("at", "length"), [(99, 8), (1093, 8), (0, 2000)])
def test_window_ends_where_it_was_bound(node, qps, window, region, source, at, length):
    left, right = qps
    window.bind(right, region, 100, 1000)
    node.settle()
    left.write((window.key, region.va + at), source.sge(0, length))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert region.read() == bytes(region.size)


@pytest.mark.parametrize("right", ["rr", "rw"])
def test_window_has_its_own_rights(node, qps, window, region, source, right):
    left, responder = qps
    window.bind(responder, region, 0, 64, **{right: 0})
    node.settle()
    action = left.write if right == "rw" else left.read
    action((window.key, region.va), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_allocated_once_and_bound_again_and_again(node, qps, window, region, source):
    """Bound to different ranges; the key is changed with each bind."""
    left, right = qps
    keys = []
    for turn in range(300):
        at = turn * 16 % 4096
        window.bind(right, region, at, 16)
        left.write((window.key, region.va + at), source.sge(turn % 64, 16))
        node.settle()
        good(left)
        good(right)
        assert region.read(at, 16) == DATA[turn % 64 :][:16]
        if window.kind == 2:
            window.unbind(right)
            node.settle()
            good(right)
        keys.append(window.key)
    assert len(set(keys[:100])) == 100


def test_old_key_is_stale_after_the_next_bind(node, qps, window, region, source):
    left, right = qps
    window.bind(right, region, 0, 64)
    stale = window.key
    if window.kind == 2:
        window.unbind(right)
    window.bind(right, region, 0, 64)
    node.settle()
    left.write((stale, region.va), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_type_1_is_associated_with_the_domain_only(node, qps, region, source):
    """Any queue pair of the domain may bind it and be reached through it."""
    _, right = qps
    others = node.queue_pair(), node.queue_pair()
    connect(*others)
    window = MemoryWindow(node, 1)
    window.bind(right, region, 0, 64)
    node.settle()
    others[0].write((window.key, region.va), source.sge(0, 64))
    node.settle()
    assert good(others[0])


def test_type_2b_is_associated_with_domain_and_queue_pair(node, qps, region, source):
    """Through another queue pair of the same domain the window is closed."""
    _, right = qps
    others = node.queue_pair(), node.queue_pair()
    connect(*others)
    window = MemoryWindow(node, 2)
    window.bind(right, region, 0, 64)
    node.settle()
    others[0].write((window.key, region.va), source.sge(0, 64))
    assert failure(others[0]) == CqeSyndrome.REMOTE_ACCESS_ERR
    assert region.read() == bytes(region.size)


def test_type_2_must_be_free_to_be_bound(node, qps, region):
    _, right = qps
    window = MemoryWindow(node, 2)
    window.bind(right, region, 0, 64)
    window.bind(right, region, 64, 64)
    assert failure(right) == CqeSyndrome.MW_BIND_ERR
    assert right.state is QpState.ERR


def test_type_2_is_unbound_only_by_its_queue_pair(node, qps, region):
    left, right = qps
    window = MemoryWindow(node, 2)
    window.bind(right, region, 0, 64)
    node.settle()
    window.unbind(left)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert not node.hca.mkeys.get(window.index).free


def test_type_2_that_is_not_bound_cannot_be_unbound(node, qps):
    """IBV_WR_LOCAL_INV, and a bind of no bytes: errors, as rdma-unit-test says of ConnectX."""
    _, right = qps
    MemoryWindow(node, 2).unbind(right)
    assert failure(right) == CqeSyndrome.MW_BIND_ERR


def test_key_of_any_queue_pair_is_invalidated_like_a_window(node, qps, region):
    """libmlx5's IBV_WR_LOCAL_INV for a key of mlx5dv's, which no queue pair is bound to."""
    _, right = qps
    window = MemoryWindow(node, 1)
    window.bind(right, region, 0, 64)
    node.settle()
    window.kind = 2
    window.unbind(right)
    node.settle()
    assert node.hca.mkeys.get(window.index).free
    window.unbind(right)
    assert failure(right) == CqeSyndrome.MW_BIND_ERR


def test_unbound_window_is_closed(node, qps, window, region, source):
    left, right = qps
    window.bind(right, region, 0, 64)
    node.settle()
    old = window.key
    window.unbind(right)
    node.settle()
    good(right)
    left.write((old, region.va), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_remote_invalidation_of_a_type_2_window(node, qps, region, source):
    left, right = qps
    inbox = node.region(64)
    window = MemoryWindow(node, 2)
    window.bind(right, region, 0, 64)
    node.settle()
    good(right)
    right.post_recv(inbox.sge())
    left.send(source.sge(0, 8), inv_rkey=window.key)
    node.settle()
    good(left)
    assert good(right)[0].immediate == window.key
    assert node.hca.mkeys.get(window.index).free


def test_type_1_window_is_not_open_to_remote_invalidation(node, qps, region, source):
    left, right = qps
    window = MemoryWindow(node, 1)
    window.bind(right, region, 0, 64)
    node.settle()
    right.post_recv(node.region(64).sge())
    left.send(source.sge(0, 8), inv_rkey=window.key)
    node.settle()
    assert right.cq.drain()[-1].syndrome == CqeSyndrome.LOCAL_ACCESS_ERR
    assert not left.cq.drain()
    assert not node.hca.mkeys.get(window.index).free


def test_zero_based_window(node, qps, window, region, source):
    left, right = qps
    window.bind(right, region, 512, 256, start=0)
    node.settle()
    left.write((window.key, 0), source.sge(0, 256))
    node.settle()
    good(left)
    assert region.read(512, 256) == DATA[:256]
    left.write((window.key, region.va + 512), source.sge(0, 8))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


@pytest.mark.parametrize("wrong", ["beyond the region", "region cannot be written", "no region"])
def test_access_is_checked_at_the_region_under_the_window(node, qps, window, source, wrong):
    """A window never opens more than the region below it has."""
    left, right = qps
    region = node.region(4096, lw=0 if wrong == "region cannot be written" else 1)
    if wrong == "no region":
        node.driver.must(Op.DESTROY_MKEY, mkey_index=region.index)
    window.bind(right, region, 0, 8192 if wrong == "beyond the region" else 4096)
    node.settle()
    left.write((window.key, region.va), source.sge(0, 64))
    if wrong == "beyond the region":
        node.settle()
        good(left)
        left.write((window.key, region.va + 4090), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_window_of_a_region_that_is_gone_is_closed(node, qps, window, region, source):
    """The region may be deregistered with windows bound; the driver does not look."""
    left, right = qps
    window.bind(right, region, 0, 64)
    node.settle()
    node.driver.must(Op.DESTROY_MKEY, mkey_index=region.index)
    left.write((window.key, region.va), source.sge(0, 64))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_bound_window_can_be_freed(node, qps, window, region):
    _, right = qps
    window.bind(right, region, 0, 64)
    node.settle()
    window.free()
    assert node.hca.mkeys.get(window.index) is None


class TestNumberUsedAgain:
    """A window of type 2 ends with its queue pair, whoever gets the number then."""

    @pytest.fixture
    def limits(self):
        return {"log_max_qp": 7, "log_max_sq": 7, "log_max_rq": 7}

    @pytest.fixture
    def reborn(self, node, qps, region):
        """Two windows, and a connection whose target has the number of the one that they are for.

        The first window was bound, the second made for the number.
        """
        old = qps[1]
        bound = MemoryWindow(node, 2)
        bound.bind(old, region, 0, 64)
        node.settle()
        made = indirect_key(node, KLM, [(64, region.key, region.va)], 64, qpn=old.qpn)
        old.destroy()
        cq = node.completion_queue()
        for _ in range(1 << 7):
            new = node.queue_pair(cq=cq)
            if new.qpn == old.qpn:
                break
            new.destroy()
        assert new.qpn == old.qpn
        left = node.queue_pair()
        connect(left, new)
        return left, new, bound, made

    @pytest.mark.parametrize("number", [0, 1], ids=["bound", "made for it"])
    def test_window_stays_shut(self, node, reborn, region, source, number):
        left, _, bound, made = reborn
        key, va = ((bound.key, region.va), (made, 0))[number]
        left.write((key, va), source.sge(0, 8))
        assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR
        assert not any(region.read())

    def test_peer_cannot_invalidate_it(self, node, reborn):
        left, right, bound, _ = reborn
        right.post_recv()
        left.send(b"", inv_rkey=bound.key)
        node.settle()
        assert right.cq.drain()[0].syndrome == CqeSyndrome.LOCAL_ACCESS_ERR
        assert not node.hca.mkeys.get(bound.index).free

    def test_window_can_be_bound_again(self, node, reborn, region, source):
        """Once its owner has invalidated it by hand, it opens for the new queue pair."""
        left, right, bound, _ = reborn
        umr(right, bound.key, flags=0, mask=int(MkeyMask.FREE), free=1)
        bound.bind(right, region, 0, 64)
        left.write((bound.key, region.va), source.sge(0, 8))
        node.settle()
        assert good(left)
        assert region.read(0, 8) == DATA[:8]
