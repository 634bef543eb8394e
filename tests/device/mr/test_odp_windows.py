"""Page faults of what a memory window's key leads to, and windows that change meanwhile.

In the transport scheme the event has the key of the RDMA, which is the window's. The driver asks
for the window by QUERY_MKEY and follows its list (hw/odp.c: pagefault_single_data_segment). It
takes what it finds then, not what was there when the page was missed, so whatever a program does to
the window meanwhile must lead it into the program's own regions, or nowhere.
"""

import pytest

from emu.device.models.capabilities import TRANSPORT_ODP
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.keys.umr import MemoryWindow
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import PageFaultSubtype
from layouts.enums.qp import QpType
from layouts.memory.mkey import query_mkey_out
from layouts.rings.wqe import KLM

PAGE = 4096
SIZE = 4 * PAGE
AT, LENGTH = PAGE + 100, 2 * PAGE
NDESCS = 4
"""Entries that the driver gives a window (hw/mr.c: mlx5_ib_alloc_mw)."""


@pytest.fixture
def scheme():
    return TRANSPORT_ODP


@pytest.fixture
def pager(node):
    return Pager(node)


@pytest.fixture
def channel(node):
    return Channel(QpType.RC, node, node, retry_count=0)


@pytest.fixture
def region(pager):
    return PagedRegion(pager, SIZE, va=0x1000_0000_0000)


@pytest.fixture
def other(pager):
    return PagedRegion(pager, SIZE, va=0x2000_0000_0000)


@pytest.fixture(params=[1, 2], ids=["type 1", "type 2"])
def window(request, node, channel, region):
    window = MemoryWindow(node, request.param)
    window.bind(channel.receiver, region, 0, SIZE)
    channel.settle()
    channel.receiver.cq.drain()
    return window


@pytest.fixture
def fault(node, channel, region, window, pager):
    """A WRITE through the window waits for its pages."""
    source = node.region(SIZE, va=0x3000_0000_0000)
    source.write(b"through the window" * 500)
    channel.write((window.key, region.va + AT), source.sge(0, LENGTH))
    event = pager.fault()
    assert event.subtype is PageFaultSubtype.RDMA
    assert (event.r_key, event.va, event.length) == (window.key, region.va + AT, LENGTH)
    return event


def followed(node, window, event):
    """Where the driver looks for the pages of an event, as it does: (key, address, length)."""
    va, left = event.va + event.committed, event.length - event.committed
    answer = node.driver.must(Op.QUERY_MKEY, mkey_index=window.index, out_extra=16 * (NDESCS - 2))
    offset = (va - answer.memory_key_mkey_entry.start_addr) % (1 << 64)
    found, at = [], query_mkey_out.size - 2 * KLM.size
    for length, key, address in KLM.iter_unpack(answer.raw[at : at + NDESCS * KLM.size]):
        if left and offset < length:
            size = min(left, length - offset)
            found.append((key, address + offset, size))
            left -= size
        offset = max(offset - length, 0)
    return found


def test_the_event_leads_to_the_region(node, channel, region, window, pager, fault):
    assert followed(node, window, fault) == [(region.key, region.va + AT, LENGTH)]
    region.bring_in()
    pager.must_resume(fault)
    assert len(channel.sent()) == 1


def test_zero_based_window(node, channel, region, pager):
    window = MemoryWindow(node, 1)
    window.bind(channel.receiver, region, PAGE, 2 * PAGE, start=0)
    channel.settle()
    channel.write((window.key, 100), b"hello")
    event = pager.fault()
    assert event.va == 100
    assert followed(node, window, event) == [(region.key, region.va + PAGE + 100, 5)]


def test_window_that_is_invalidated_meanwhile(node, channel, region, window, pager, fault):
    """Its list stays, so that the driver has nothing to refuse; the RDMA is refused for its key."""
    window.unbind(channel.receiver)
    channel.settle()
    assert followed(node, window, fault) == [(region.key, region.va + AT, LENGTH)]
    region.bring_in()
    pager.must_resume(fault)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert not any(region.read())


@pytest.mark.parametrize("at", [0, PAGE], ids=["at its beginning", "behind it"])
def test_window_that_is_bound_to_another_region_meanwhile(
    node, channel, region, other, window, pager, fault, at
):
    """The driver brings in pages of the new region, or none: it refuses neither."""
    if window.kind == 2:
        window.unbind(channel.receiver)
    window.bind(channel.receiver, other, at, SIZE - at, start=region.va + at)
    channel.settle()
    ((key, address, length),) = followed(node, window, fault)
    assert (key, address, length) == (other.key, other.va + AT, LENGTH)
    other.bring_in()
    pager.must_resume(fault)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert not any(region.read())
    assert not any(other.read())


def test_window_that_is_bound_elsewhere_meanwhile(node, channel, region, other, window, fault):
    if window.kind == 2:
        window.unbind(channel.receiver)
    window.bind(channel.receiver, other, 0, SIZE)
    channel.settle()
    assert followed(node, window, fault) == []
