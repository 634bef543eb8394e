"""Kernel files: whatever they are wrapped in, the same BTF comes out, or one clear line."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from struct import pack_into

import pytest
import zstandard
from helpers.files import kernel_files
from helpers.files.btf_blob import Blob

from layouts.btf import binaries
from layouts.btf.binaries import BinaryError

RELEASE = "6.12.1-test"


@pytest.fixture
def base():
    blob = Blob()
    blob.struct("in_kernel", 1, ("a", blob.integer(), 0))
    return blob


@pytest.fixture
def split(base):
    blob = Blob(base)
    blob.struct("in_module", 1, ("a", 1, 0))
    return blob


@pytest.fixture
def write(tmp_path):
    def writer(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return writer


@pytest.fixture
def kernel(write, base):
    return write("vmlinux", kernel_files.vmlinux(base.data()))


def unchanged(data):
    return data


COMPRESSIONS = {
    "": unchanged,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_modules_of_every_compression(suffix, write, kernel, split):
    path = write("m.ko" + suffix, COMPRESSIONS[suffix](kernel_files.module(split.data())))
    driver = binaries.load([path], kernel)
    assert driver.release == RELEASE
    (btf,) = driver.btfs
    assert btf.find("in_module")
    assert btf.find("in_kernel")


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("setup_sects", [0, 2, 39])
def test_bzimages_of_every_compression(suffix, setup_sects, write, base, split):
    payload = COMPRESSIONS[suffix](kernel_files.vmlinux(base.data()))
    # The kernel's build appends the unpacked size to the stream.
    image = kernel_files.bzimage(payload + b"size", setup_sects)
    module = write("m.ko", kernel_files.module(split.data()))
    driver = binaries.load([module], write("vmlinuz", image))
    assert driver.btfs[0].find("in_kernel")


def test_each_module_stands_over_the_kernel(write, kernel, base):
    other = Blob(base)
    other.struct("in_other", 1)
    mine = Blob(base)
    mine.struct("in_mine", 1)
    paths = [
        write(f"{n}.ko", kernel_files.module(blob.data())) for n, blob in enumerate((mine, other))
    ]
    first, second = binaries.load(paths, kernel).btfs
    assert first.find("in_mine")
    assert second.find("in_other")
    assert not first.find("in_other")


class TestRefused:
    def test_no_module(self, kernel):
        with pytest.raises(BinaryError, match="no module"):
            binaries.load([], kernel)

    def test_file_that_is_not_there(self, kernel):
        with pytest.raises(BinaryError, match=r"^/none.ko: No such file"):
            binaries.load([Path("/none.ko")], kernel)

    def test_module_of_another_kernel(self, write, kernel, split):
        path = write("m.ko", kernel_files.module(split.data(), "6.1.0-1"))
        with pytest.raises(BinaryError, match=r"m.ko is built for 6.1.0-1, .*vmlinux is 6.12.1"):
            binaries.load([path], kernel)

    def test_module_of_no_kernel(self, write, kernel, split):
        path = write("m.ko", kernel_files.elf({".modinfo": b"a=b\0", ".BTF": split.data()}))
        with pytest.raises(BinaryError, match="kernel release"):
            binaries.load([path], kernel)

    def test_module_without_btf(self, write, kernel):
        path = write("m.ko", kernel_files.elf({".modinfo": b"vermagic=6.12.1-test SMP"}))
        with pytest.raises(BinaryError, match=r"m.ko: no section \.BTF"):
            binaries.load([path], kernel)

    def test_btf_that_is_none(self, write, kernel):
        path = write("m.ko", kernel_files.module(b"something else entirely, but long enough"))
        with pytest.raises(BinaryError, match=r"m\.ko: magic 736f is not BTF's"):
            binaries.load([path], kernel)

    @pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x02\x21\x4c\x18lz4"])
    def test_file_of_another_kind(self, data, write, kernel):
        with pytest.raises(BinaryError, match=r"m\.ko: neither ELF nor gzip, xz or zstd"):
            binaries.load([write("m.ko", data)], kernel)

    @pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
    def test_damaged_compression(self, suffix, write, kernel, split):
        packed = bytearray(COMPRESSIONS[suffix](kernel_files.module(split.data())))
        packed[6:40] = bytes(34)
        with pytest.raises(BinaryError, match="data is damaged"):
            binaries.load([write("m.ko", bytes(packed))], kernel)

    @pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
    def test_more_than_we_unpack(self, suffix, monkeypatch, write, kernel):
        monkeypatch.setattr(binaries, "_MAX_SIZE", 1 << 16)
        packed = COMPRESSIONS[suffix](bytes(1 << 20))
        with pytest.raises(BinaryError, match="unpacks to more than 65536 bytes"):
            binaries.load([write("m.ko", packed)], kernel)

    @pytest.mark.parametrize("length", [4, 63, 200])
    def test_elf_file_cut_short(self, length, write, kernel, split):
        path = write("m.ko", kernel_files.module(split.data())[:length])
        with pytest.raises(BinaryError, match=r"m\.ko: (damaged ELF file|no section)"):
            binaries.load([path], kernel)

    def test_section_that_the_file_does_not_hold(self, write, kernel, split):
        nobits = kernel_files.elf({".modinfo": b"x", ".BTF": b"y"}, kernel_files.SHT_NOBITS)
        with pytest.raises(BinaryError, match=r"section \.modinfo is not in the file"):
            binaries.load([write("m.ko", nobits)], kernel)
        data = bytearray(kernel_files.module(split.data()))
        # The size in the second section header from the end, which is .BTF's.
        pack_into("<Q", data, len(data) - 2 * 64 + 32, 1 << 62)
        with pytest.raises(BinaryError, match=r"section \.BTF is not in the file"):
            binaries.load([write("m.ko", bytes(data))], kernel)


class TestBzimage:
    def test_cut_short(self):
        with pytest.raises(BinaryError, match="inside its header"):
            binaries.vmlinux(kernel_files.bzimage(b"")[:0x24F])

    def test_too_old(self):
        with pytest.raises(BinaryError, match="boot protocol 0x207"):
            binaries.vmlinux(kernel_files.bzimage(b"", version=0x207))

    def test_oldest_that_we_read(self):
        image = kernel_files.bzimage(b"\x7fELF", version=0x208)
        assert binaries.vmlinux(image) == b"\x7fELF"

    def test_payload_outside(self):
        image = bytearray(kernel_files.bzimage(b"\x7fELF"))
        pack_into("<I", image, 0x24C, len(image))
        with pytest.raises(BinaryError, match="outside the bzImage"):
            binaries.vmlinux(bytes(image))
