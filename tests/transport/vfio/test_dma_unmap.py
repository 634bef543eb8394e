"""VFIO_USER_DMA_UNMAP."""

import errno
import gc
import os
from pathlib import Path

import pytest

from emu.device.ports import DmaError
from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import DMA_MAP, DMA_UNMAP, UnmapFlag, VfioCommand

MIB = 1 << 20


@pytest.fixture
def ram(served):
    return served.ram(MIB)


@pytest.fixture
def pages(own, own_client):
    """Our own server with three pages granted, a hole before the third."""
    ram = own.ram(MIB)
    for page in (0, 1, 3):
        own_client.dma_map(page << 12, 0x1000, fd=ram.fd, offset=page << 12)
    return own


def test_unmapped_memory_is_out_of_reach(served, client, ram):
    client.dma_map(0, MIB, fd=ram.fd)
    served.memory.write(0, b"cached")
    assert served.memory.read(0, 6) == b"cached"
    client.dma_unmap(0, MIB)
    for access in (served.memory.read, served.memory.view, served.memory.segments):
        with pytest.raises(DmaError, match="not mapped"):
            access(0, 6)
    with pytest.raises(DmaError, match="not mapped"):
        served.memory.write(0, b"x")
    assert ram.bytes[:6] == b"cached"


def test_what_was_never_granted(own, own_client):
    """QEMU's intel-iommu takes such ranges back by the dozen."""
    own_client.dma_unmap(0, MIB)
    own_client.dma_unmap(0, (1 << 64) - 0x1000)


def test_everything(served, client, ram):
    client.dma_map(0, 0x1000, fd=ram.fd)
    client.dma_map(0x10000, 0x1000, fd=ram.fd, offset=0x1000)
    client.dma_unmap_all()
    assert len(served.memory) == 0
    client.dma_unmap_all()


def test_several_at_once(pages, own_client):
    own_client.dma_unmap(0, 0x4000)
    assert len(pages.memory) == 0


def test_one_of_several(pages, own_client):
    own_client.dma_unmap(0x1000, 0x2000)
    assert pages.memory.read(0, 0x1000)
    assert pages.memory.read(0x3000, 0x1000)
    with pytest.raises(DmaError):
        pages.memory.read(0x1000, 1)


@pytest.mark.parametrize(("iova", "size"), [(0x1000, 0xF000), (0, 0x1000), (0x1000, 0x1000)])
def test_part_of_a_range_is_refused(served, client, ram, iova, size):
    client.dma_map(0, 0x10000, fd=ram.fd)
    served.function.views.append(served.memory.view(0, 4))
    with pytest.raises(VfioRefusedError):
        client.dma_unmap(iova, size)
    assert (len(served.memory), len(served.function.views)) == (1, 1)
    assert served.memory.read(0, 4) == bytes(4)


@pytest.mark.parametrize(
    ("iova", "size", "flags"),
    [
        (0, 0, 0),
        ((1 << 64) - 0x1000, 0x2000, 0),
        (0, 0x1000, UnmapFlag.GET_DIRTY_BITMAP),
        (0, 0x1000, UnmapFlag.ALL),
        (0x1000, 0, UnmapFlag.ALL),
        (0, 0, UnmapFlag.ALL | UnmapFlag.GET_DIRTY_BITMAP),
        (0, 0x1000, 4),
    ],
)
def test_bad_request_changes_nothing(pages, own_client, iova, size, flags):
    with pytest.raises(VfioRefusedError) as refused:
        own_client.dma_unmap(iova, size, flags)
    assert refused.value.errno == errno.EINVAL
    assert len(pages.memory) == 3


@pytest.mark.parametrize(
    "payload", [DMA_UNMAP.pack(23, 0, 0, 4096), DMA_UNMAP.pack(24, 0, 0, 4096)[:-1], b"\0"]
)
def test_bad_size_is_refused(own_client, payload):
    with pytest.raises(VfioRefusedError) as refused:
        own_client.call(VfioCommand.DMA_UNMAP, payload)
    assert refused.value.errno == errno.EINVAL


def test_a_pipelined_change_of_the_whole_map(served, client, ram):
    """SeaBIOS makes QEMU split and join RAM, many requests before the first reply."""
    client.dma_map(0, MIB, fd=ram.fd)
    sent = []
    for _ in range(4):
        sent.append(client.send(VfioCommand.DMA_UNMAP, DMA_UNMAP.pack(24, 0, 0, MIB)))
        for part in range(8):
            at, size = part * MIB // 8, MIB // 8
            sent.append(
                client.send(VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, at, at, size), [ram.fd])
            )
        for part in range(8):
            at, size = part * MIB // 8, MIB // 8
            sent.append(client.send(VfioCommand.DMA_UNMAP, DMA_UNMAP.pack(24, 0, at, size)))
        sent.append(client.send(VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, 0, 0, MIB), [ram.fd]))
    replies = [client.receive() for _ in sent]
    assert [reply.msg_id for reply in replies] == sent
    assert not any(reply.errno for reply in replies)
    assert len(served.memory) == 1
    served.memory.write(MIB // 8 - 2, b"seam")
    assert ram.bytes[MIB // 8 - 2 : MIB // 8 + 2] == b"seam"


def mapped_files():
    """How many mappings of guest memory this process has, and descriptors of it."""
    maps = Path("/proc/self/maps").read_text().count("memfd:guest-ram")
    names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    fds = [name for name in names if os.path.lexists(name) and "guest-ram" in os.readlink(name)]
    return maps, len(fds)


@pytest.fixture
def no_collection(monkeypatch):
    """A full collection takes a tenth of a second, in which no guest is served."""
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("a full collection"))


@pytest.mark.hostile
def test_views_that_the_function_keeps_are_forgotten(served, client, ram, no_collection):
    """As memory keys keep those of the ranges that traffic has used."""
    before = mapped_files()
    for _ in range(3):
        client.dma_map(0, MIB, fd=ram.fd)
        served.function.views += [served.memory.view(0, 4), served.memory.view(8, 4)]
        client.dma_unmap(0, MIB)
        assert served.function.views == []
        assert mapped_files() == before
    client.dma_map(0, MIB, fd=ram.fd)
    served.function.views.append(served.memory.view(0, 4))
    client.dma_unmap_all()
    assert mapped_files() == before


def test_views_are_forgotten_though_their_file_is_still_granted(own, own_client):
    """They may be of the page that is taken back, or of one that a new page has replaced."""
    ram = own.ram(MIB)
    own_client.dma_map(0, 0x1000, fd=ram.fd)
    own.function.views.append(own.memory.view(0, 4))
    own_client.dma_map(0x1000, 0x1000, fd=ram.fd)
    assert own.function.views == []
    own.function.views.append(own.memory.view(0, 4))
    own_client.dma_unmap(0x1000, 0x1000)
    assert own.function.views == []


@pytest.mark.hostile
def test_a_view_that_work_under_way_holds(served, client, ram, no_collection):
    """Neither the unmap nor the view fails; the file is unmapped with the next one."""
    before = mapped_files()
    client.dma_map(0, MIB, fd=ram.fd)
    view = served.memory.view(0, 4)
    client.dma_unmap(0, MIB)
    view[:] = b"held"
    assert ram.bytes[:4] == b"held"
    client.dma_map(0, MIB, fd=ram.fd)
    assert served.memory.read(0, 4) == b"held"
    view.release()
    client.dma_unmap(0, MIB)
    assert mapped_files() == before


@pytest.mark.hostile
def test_what_is_held_counts_against_the_files(own, own_client):
    views = []
    for _ in range(64):
        ram = own.ram(0x1000)
        own_client.dma_map(0, 0x1000, fd=ram.fd)
        views.append(own.memory.view(0, 4))
        own_client.dma_unmap(0, 0x1000)
    with pytest.raises(VfioRefusedError) as refused:
        own_client.dma_map(0, 0x1000, fd=ram.fd)
    assert refused.value.errno == errno.ENOSPC
    views.clear()
    own_client.dma_map(0, 0x1000, fd=ram.fd)
