"""Kernels and their modules: what is in a bzImage, what an initramfs loads."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct

import pytest
import zstandard

from emu.guests.errors import LabError
from emu.guests.kernel import binaries, custom
from emu.guests.kernel.modules import load_order, module_name

ELF = b"\x7fELF" + bytes(60) + struct.pack("<III", 4, 8, 18) + b"Xen\0" + bytes(8)
VERSION = b"6.12.1-test (me@here) #1 SMP\0"


def bzimage(payload, version=VERSION):
    """A file with the header fields that a boot loader reads, and a payload."""
    setup = bytearray(3 * 512)  # boot sector and two setup sectors
    setup[0x1F1] = 2
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", setup, 0x20E, 0x100)
    setup[0x300 : 0x300 + len(version)] = version
    struct.pack_into("<II", setup, 0x248, 64, len(payload))
    return bytes(setup) + bytes(64) + payload


@pytest.fixture
def write(tmp_path):
    def write_kernel(data):
        path = tmp_path / "bzImage"
        path.write_bytes(data)
        return path

    return write_kernel


@pytest.mark.parametrize(
    "compress",
    [lzma.compress, gzip.compress, bz2.compress, zstandard.ZstdCompressor().compress, bytes],
)
def test_the_elf_comes_out_whatever_it_was_packed_with(write, compress):
    assert binaries.extract_vmlinux(write(bzimage(compress(ELF) + b"size"))).startswith(ELF)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x02\x21\x4c\x18 lz4 is not known",
        lzma.compress(ELF)[:20] + bytes(9),
        gzip.compress(b"no ELF"),
        gzip.compress(ELF.replace(b"Xen", b"nex")),  # no PVH note: QEMU could not start it
    ],
    ids=["a format not known", "a cut one", "no ELF", "no PVH note"],
)
def test_what_cannot_be_started_unpacked_is_left_packed(write, payload):
    assert binaries.extract_vmlinux(write(bzimage(payload))) is None


def test_the_release_is_read(write):
    assert binaries.release(write(bzimage(b""))) == "6.12.1-test"


@pytest.mark.parametrize("data", [b"", b"HdrS", bytes(4096), ELF])
def test_another_file_is_refused(write, data):
    with pytest.raises(LabError, match="not a Linux bzImage"):
        binaries.release(write(data))


def test_no_file_and_no_version_are_refused(write, tmp_path):
    with pytest.raises(LabError, match="cannot read"):
        binaries.release(tmp_path / "none")
    with pytest.raises(LabError, match="contains no kernel release"):
        binaries.release(write(bzimage(b"", version=b"\0")))


DEP = """\
kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/fs/mbcache.ko.xz
kernel/fs/jbd2/jbd2.ko.xz: kernel/lib/crc.ko
kernel/fs/mbcache.ko.xz:
kernel/lib/crc.ko:
kernel/drivers/block/virtio-blk.ko:
kernel/drivers/char/virtio_console.ko:
"""


def test_modules_load_after_what_they_need():
    order = [module_name(path) for path in load_order(DEP, "kernel/drivers/virtio/virtio_pci.ko\n")]
    assert sorted(order) == ["crc", "ext4", "jbd2", "mbcache", "virtio_blk", "virtio_console"]
    assert order.index("crc") < order.index("jbd2") < order.index("ext4")
    assert order.index("mbcache") < order.index("ext4")


def test_a_kernel_without_a_needed_module_is_refused():
    with pytest.raises(LabError, match="no virtio_pci"):
        load_order(DEP, "")


def test_modules_that_need_each_other_end():
    assert len(load_order("a.ko: b.ko\nb.ko: a.ko\n", "", ["a"])) == 2


@pytest.mark.parametrize("below", ["", "6.1", "lib/modules/6.1", "usr/lib/modules/6.1"])
def test_a_module_tree_is_found_where_installations_put_it(tmp_path, below):
    tree = tmp_path / below
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "modules.dep").touch()
    assert custom.find_tree(tmp_path, "6.1", tmp_path / "w") == tree


def test_a_missing_module_tree_is_refused(tmp_path):
    with pytest.raises(LabError, match=r"no modules for kernel 6\.1 in"):
        custom.find_tree(tmp_path, "6.1", tmp_path / "w")


COMPRESSIONS = [
    (".xz", lzma.compress),
    (".gz", gzip.compress),
    (".zst", zstandard.ZstdCompressor().compress),
]


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), *COMPRESSIONS])
def test_modules_are_unpacked(suffix, compress):
    assert binaries.unpack_module(f"a.ko{suffix}", compress(b"code")) == b"code"


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_a_module_without_end_is_refused(suffix, compress, monkeypatch):
    """A guest's file of some kilobytes says what would be gigabytes."""
    monkeypatch.setattr(binaries, "_MAX_MODULE", 1 << 20)
    with pytest.raises(LabError, match=r"exceeds 1 MiB when unpacked|requires too much memory"):
        binaries.unpack_module(f"a.ko{suffix}", compress(bytes(2 << 20)))
    assert binaries.unpack_module(f"a.ko{suffix}", compress(bytes(1 << 20))) == bytes(1 << 20)


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        *((suffix, b"nonsense") for suffix, _ in COMPRESSIONS),
        (".xz", lzma.compress(b"code")[:-4]),
        (".gz", gzip.compress(b"code")[:-4]),
    ],
    ids=["no xz", "no gz", "no zst", "a cut xz", "a cut gz"],  # the bytes of a gz have its time
)
def test_a_module_that_is_nonsense_is_refused(suffix, data):
    with pytest.raises(LabError, match="cannot be unpacked"):
        binaries.unpack_module(f"a.ko{suffix}", data)
