"""Finding the file behind an address of our own."""

import ctypes
import mmap
import os

import pytest

from emu.server.vfio.mappings import find_backing

PAGE = mmap.PAGESIZE


def address_of(mapping):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


@pytest.fixture
def memfd():
    fd = os.memfd_create("file", os.MFD_CLOEXEC)
    os.ftruncate(fd, 8 * PAGE)
    yield fd
    os.close(fd)


def test_file_and_offset(memfd):
    mapping = mmap.mmap(memfd, 2 * PAGE, offset=4 * PAGE)
    fd, offset = find_backing(address_of(mapping) + PAGE + 5)
    assert os.path.sameopenfile(fd, memfd)
    assert offset == 5 * PAGE + 5


def test_a_writable_descriptor_is_preferred(memfd):
    read_only = os.open(f"/proc/self/fd/{memfd}", os.O_RDONLY)
    mapping = mmap.mmap(memfd, PAGE)
    fd, _ = find_backing(address_of(mapping))
    assert fd != read_only
    os.close(read_only)


def test_anonymous_memory():
    mapping = mmap.mmap(-1, PAGE)
    assert find_backing(address_of(mapping)) is None


def test_no_memory_at_all():
    assert find_backing(0) is None
