"""VFIO_USER_DMA_MAP."""

import errno
import fcntl
import os

import pytest

from emu.device.ports import DmaError
from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import DMA_MAP, DmaFlag, VfioCommand

MIB = 1 << 20
IOVA = 0x1_0000_0000


@pytest.fixture
def ram(served):
    return served.ram(MIB)


@pytest.fixture
def own_ram(own):
    return own.ram(MIB)


def refused(errno_, call, *args, **kwargs):
    with pytest.raises(VfioRefusedError) as error:
        call(*args, **kwargs)
    assert error.value.errno == errno_


def test_memory_is_shared(served, client, ram):
    client.dma_map(IOVA, MIB, fd=ram.fd)
    ram.bytes[0x1234:0x1238] = b"mlx5"
    assert served.memory.read(IOVA + 0x1234, 4) == b"mlx5"
    served.memory.write(IOVA + MIB - 4, b"last")
    assert ram.bytes[-4:] == b"last"


def test_offset_into_the_file(served, client, ram):
    client.dma_map(0, 0x1000, fd=ram.fd, offset=0x3000)
    served.memory.write(0, b"three")
    assert ram.bytes[0x3000:0x3005] == b"three"


def test_nothing_is_granted_at_first(served, client):
    with pytest.raises(DmaError, match="not mapped"):
        served.memory.read(0, 1)


def test_read_only_memory(served, client, ram):
    client.dma_map(IOVA, MIB, fd=ram.fd, flags=DmaFlag.READ)
    assert served.memory.read(IOVA, 4) == bytes(4)
    assert served.memory.view(IOVA, 4, writable=False).readonly
    for access in (served.memory.view, served.memory.segments):
        with pytest.raises(DmaError, match="read-only"):
            access(IOVA, 4)
    with pytest.raises(DmaError, match="read-only"):
        served.memory.write(IOVA, b"1234")


def test_a_read_only_and_a_writable_range_of_one_file(served, client, ram):
    """SeaBIOS shadows the ROM: parts of RAM become read-only."""
    client.dma_map(0xC0000, 0x4000, fd=ram.fd, offset=0x4000, flags=DmaFlag.READ)
    client.dma_map(0xC4000, 0x4000, fd=ram.fd, offset=0x8000)
    served.memory.write(0xC4000, b"ram")
    assert ram.bytes[0x8000:0x8003] == b"ram"
    with pytest.raises(DmaError, match="read-only"):
        served.memory.write(0xC3FFE, b"both")
    assert ram.bytes[0x7FFE:0x8003] == b"\0\0ram"


def test_memory_without_a_descriptor_is_out_of_reach(served, client):
    client.dma_map(0xFFFC0000, 0x40000, flags=DmaFlag.READ)
    with pytest.raises(DmaError, match="without a file descriptor"):
        served.memory.read(0xFFFC0000, 4)
    client.dma_unmap(0xFFFC0000, 0x40000)
    with pytest.raises(DmaError, match="not mapped"):
        served.memory.read(0xFFFC0000, 4)


def test_write_only_memory(own, own_client, own_ram):
    own_client.dma_map(IOVA, MIB, fd=own_ram.fd, flags=DmaFlag.WRITE)
    own.memory.write(IOVA, b"in")
    assert own_ram.bytes[:2] == b"in"
    with pytest.raises(DmaError, match="write-only"):
        own.memory.read(IOVA, 2)
    with pytest.raises(DmaError, match="write-only"):
        own.memory.view(IOVA, 2)


@pytest.mark.parametrize(
    ("iova", "size", "offset"),
    [
        (IOVA, 0, 0),
        (IOVA + 1, 0x1000, 0),
        (IOVA, 0x1001, 0),
        (IOVA, 0x1000, 0x10),
        ((1 << 64) - 0x1000, 0x2000, 0),
        (IOVA, MIB, 0x1000),
        (IOVA, 0x1000, MIB),
        (IOVA, 0x1000, (1 << 64) - 0x1000),
        (IOVA, 1 << 40, 0),
    ],
)
def test_bad_range(own, own_client, own_ram, iova, size, offset):
    own.function.views.append(memoryview(b"kept"))
    refused(errno.EINVAL, own_client.dma_map, iova, size, fd=own_ram.fd, offset=offset)
    assert (len(own.memory), len(own.function.views)) == (0, 1)


def test_the_top_of_the_address_space(own, own_client, own_ram):
    own_client.dma_map((1 << 64) - MIB, MIB, fd=own_ram.fd)
    own.memory.write((1 << 64) - 1, b"!")
    assert own_ram.bytes[-1:] == b"!"


@pytest.mark.parametrize("size", [0x2000, 0x10000])
@pytest.mark.parametrize("iova", [IOVA, IOVA - 0x1000, IOVA + 0x1000])
def test_overlap(own, own_client, own_ram, iova, size):
    own_client.dma_map(IOVA, 0x2000, fd=own_ram.fd)
    refused(errno.EEXIST, own_client.dma_map, iova, size, fd=own_ram.fd)
    own_client.dma_map(IOVA + 0x2000, 0x2000, fd=own_ram.fd)
    own_client.dma_map(IOVA - 0x2000, 0x2000, fd=own_ram.fd)
    assert len(own.memory) == 3


def test_overlap_with_libvfio_user_too(served, client, ram):
    client.dma_map(IOVA, 0x2000, fd=ram.fd)
    with pytest.raises(VfioRefusedError):
        client.dma_map(IOVA + 0x1000, 0x2000, fd=ram.fd)
    assert len(served.memory) == 1


@pytest.mark.parametrize("flags", [0, 8, 16, 0x80000003])
def test_bad_flags(own_client, own_ram, flags):
    refused(errno.EINVAL, own_client.dma_map, IOVA, MIB, fd=own_ram.fd, flags=flags)


def test_mappable_without_a_descriptor(served, client):
    with pytest.raises(VfioRefusedError):
        client.dma_map(IOVA, MIB, flags=DmaFlag.READ | DmaFlag.MMAP)


def test_bad_argsz(served, client, ram):
    refused(errno.EINVAL, client.dma_map, IOVA, MIB, fd=ram.fd, argsz=31)


@pytest.mark.parametrize("size", [31, 33])
def test_bad_size(own_client, size):
    payload = DMA_MAP.pack(32, 3, 0, IOVA, MIB) + b"\0"
    refused(errno.EINVAL, own_client.call, VfioCommand.DMA_MAP, payload[:size])


def test_two_descriptors(own, own_client, own_ram):
    payload = DMA_MAP.pack(32, 3, 0, IOVA, MIB)
    refused(errno.EINVAL, own_client.call, VfioCommand.DMA_MAP, payload, [own_ram.fd, own_ram.fd])
    assert len(own.memory) == 0


@pytest.mark.hostile
def test_too_many(own, own_client, own_ram):
    own.memory._max_maps = 3
    for page in range(3):
        own_client.dma_map(page << 13, 0x1000, fd=own_ram.fd)
    refused(errno.ENOSPC, own_client.dma_map, 3 << 13, 0x1000, fd=own_ram.fd)
    own_client.dma_unmap(1 << 13, 0x1000)
    own_client.dma_map(3 << 13, 0x1000, fd=own_ram.fd)


@pytest.mark.hostile
def test_too_many_files(own, own_client):
    """Each costs us a descriptor."""
    rams = [own.ram(0x1000) for _ in range(65)]
    for number, ram in enumerate(rams[:64]):
        own_client.dma_map(number << 12, 0x1000, fd=ram.fd)
    refused(errno.ENOSPC, own_client.dma_map, 64 << 12, 0x1000, fd=rams[64].fd)
    own_client.dma_map(65 << 12, 0x1000, fd=rams[0].fd)
    own_client.dma_unmap(0x1000, 0x1000)
    own_client.dma_map(64 << 12, 0x1000, fd=rams[64].fd)


@pytest.mark.hostile
def test_a_file_that_grows_all_the_time(own, own_client):
    """Each size that is still in use is a mapping of its own, with a descriptor of its own."""
    ram = own.ram(0x1000, sealed=False)
    for page in range(64):
        os.ftruncate(ram.fd, (page + 1) << 12)
        own_client.dma_map(page << 12, 0x1000, fd=ram.fd, offset=page << 12)
    os.ftruncate(ram.fd, 65 << 12)
    refused(errno.ENOSPC, own_client.dma_map, 64 << 12, 0x1000, fd=ram.fd, offset=64 << 12)
    own_client.dma_map(64 << 12, 0x1000, fd=ram.fd, offset=63 << 12)
    own_client.dma_unmap(0, 0x1000)
    own_client.dma_map(0, 0x1000, fd=ram.fd, offset=64 << 12)


def test_thousands_of_single_pages(own, own_client):
    """A guest's IOMMU grants pages; more of them than the kernel would let us map one by one."""
    ram = own.ram(1000 << 12)
    for page in range(1000):
        own_client.send(
            VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, page << 12, page << 13, 4096), [ram.fd]
        )
        own.step()
        assert own_client.receive().errno == 0
    own.memory.write(999 << 13, b"last")
    assert ram.bytes[999 << 12 : (999 << 12) + 4] == b"last"


def test_a_read_only_descriptor_is_not_for_writing(own, own_client, own_ram):
    fd = os.open(f"/proc/self/fd/{own_ram.fd}", os.O_RDONLY)
    try:
        refused(errno.EACCES, own_client.dma_map, IOVA, MIB, fd=fd)
        own_client.dma_map(IOVA, MIB, fd=fd, flags=DmaFlag.READ)
        own_client.dma_map(IOVA + MIB, MIB, fd=own_ram.fd)
    finally:
        os.close(fd)
    own.memory.write(IOVA + MIB, b"rw")
    assert own.memory.read(IOVA, 2) == b"rw"


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_what_is_no_file(own, own_client, path):
    fd = os.open(path, os.O_RDONLY)
    try:
        refused(errno.EINVAL, own_client.dma_map, IOVA, MIB, fd=fd, flags=DmaFlag.READ)
    finally:
        os.close(fd)


def test_an_unsealed_memfd_is_sealed(own, own_client):
    ram = own.ram(MIB, sealed=False)
    own_client.dma_map(IOVA, MIB, fd=ram.fd)
    assert fcntl.fcntl(ram.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    with pytest.raises(PermissionError):
        os.ftruncate(ram.fd, 0)


@pytest.fixture
def plain_file(tmp_path):
    path = tmp_path / "ram"
    path.write_bytes(bytes(MIB))
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


def test_a_file_that_may_shrink_is_refused(served, client, plain_file, caplog):
    if served.own:
        refused(errno.EINVAL, client.dma_map, IOVA, MIB, fd=plain_file)
    else:
        client.dma_map(IOVA, MIB, fd=plain_file)
    assert "memory-backend-memfd" in caplog.text
    with pytest.raises(DmaError):
        served.memory.read(IOVA, 1)


def test_a_file_can_be_trusted(serve, plain_file):
    own = serve("vfio-user", trust_unsealed=True)
    own.client().dma_map(IOVA, MIB, fd=plain_file)
    own.memory.write(IOVA, b"trust")
    assert os.pread(plain_file, 5, 0) == b"trust"


def test_a_trusted_file_still_has_to_be_long_enough(serve, plain_file):
    own = serve("vfio-user", trust_unsealed=True)
    refused(errno.EINVAL, own.client().dma_map, IOVA, 2 * MIB, fd=plain_file)


def test_a_short_file_is_out_of_reach(served, client, ram):
    if served.own:
        refused(errno.EINVAL, client.dma_map, IOVA, 2 * MIB, fd=ram.fd)
    else:
        client.dma_map(IOVA, 2 * MIB, fd=ram.fd)
    with pytest.raises(DmaError):
        served.memory.read(IOVA + MIB, 1)


def test_a_file_that_has_grown_is_mapped_anew(own, own_client):
    ram = own.ram(MIB, sealed=False)
    own_client.dma_map(0, MIB, fd=ram.fd)
    os.ftruncate(ram.fd, 2 * MIB)
    own_client.dma_map(MIB, MIB, fd=ram.fd, offset=MIB)
    own.memory.write(MIB - 2, b"seam")
    assert os.pread(ram.fd, 4, MIB - 2) == b"seam"
