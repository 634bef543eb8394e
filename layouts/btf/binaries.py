"""Reads a kernel's binaries, as shipped by a distribution, down to their BTF.

A module is an ELF object, often compressed whole (``.ko.xz``). The kernel is an ELF file
(``vmlinux``) or, as installed on x86, a bzImage. A bzImage has a boot sector and setup code, whose
header gives the offset of the compressed vmlinux (Documentation/arch/x86/boot.rst, "The Real-Mode
Kernel Header"). The magic of a file selects its decompression, not the file's name.
"""

from __future__ import annotations

import io
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from

import zstandard
from construct import ConstructError
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from layouts.btf.reader import Btf, BtfError

_MAX_SIZE = 1 << 29
"""Maximum number of unpacked bytes: several times a distribution's vmlinux."""
_ELF = b"\x7fELF"
_SETUP_SECTS, _HEADER_MAGIC, _VERSION, _PAYLOAD = 0x1F1, 0x202, 0x206, 0x248
_VERSION_WITH_PAYLOAD = 0x208
_VERMAGIC = re.compile(rb"(?:^|\0)vermagic=([^ \0]+)")
_BANNER = re.compile(rb"Linux version (\d[^ \0]*) \(")


class BinaryError(ValueError):
    """Raised when a file is not the expected module or kernel."""


@dataclass(frozen=True, slots=True)
class DriverBinaries:
    """BTF of a kernel's own binaries."""

    release: str
    """Release (``uname -r``) of the kernel that they were built for."""
    btfs: tuple[Btf, ...]
    """BTF of each module, over the kernel's, in the order of the arguments."""


def load(modules: list[Path], kernel: Path) -> DriverBinaries:
    """Return the BTF of ``modules`` (at least one) over that of ``kernel``, a vmlinux or vmlinuz.

    Raises :class:`BinaryError` for files that cannot be read, carry no BTF, or are of different
    kernel releases. A module's BTF means nothing over another kernel's.
    """
    if not modules:
        raise BinaryError("no module to read")
    image = _read(kernel, vmlinux)
    release = _release(kernel, image, _BANNER)
    base = _btf(kernel, image)
    btfs = []
    for path in modules:
        module = _read(path, decompress)
        built_for = _release(path, _section(path, module, ".modinfo"), _VERMAGIC)
        if built_for != release:
            raise BinaryError(f"{path} is built for {built_for}, {kernel} is {release}")
        btfs.append(_btf(path, module, base))
    return DriverBinaries(release, tuple(btfs))


def vmlinux(data: bytes) -> bytes:
    """Return the ELF image inside a bzImage, or in a vmlinux, compressed or not.

    Raises BinaryError for a damaged or old (before boot protocol 2.08) bzImage, and as
    :func:`decompress` does.
    """
    if data[_HEADER_MAGIC : _HEADER_MAGIC + 4] != b"HdrS":
        return decompress(data)
    if len(data) < _PAYLOAD + 8:
        raise BinaryError("bzImage ends inside its header")
    (version,) = unpack_from("<H", data, _VERSION)
    if version < _VERSION_WITH_PAYLOAD:
        raise BinaryError(f"boot protocol {version:#x} does not give the kernel's offset")
    offset, length = unpack_from("<II", data, _PAYLOAD)
    # A setup_sects of 0 means 4, and the boot sector comes before the setup sectors.
    start = ((data[_SETUP_SECTS] or 4) + 1) * 512 + offset
    if start + length > len(data):
        raise BinaryError("payload lies outside the bzImage")
    return decompress(data[start : start + length])


def decompress(data: bytes) -> bytes:
    """Return data unpacked by its magic (gzip, xz, zstd); an ELF file is returned as it is.

    Junk at the end is ignored. Raises BinaryError for any other magic, damaged data, and more than
    _MAX_SIZE unpacked bytes.
    """
    if data.startswith(_ELF):
        return data
    for magic, (name, unpack) in _COMPRESSIONS.items():
        if data.startswith(magic):
            try:
                return _bounded(unpack(data))
            except (lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
                raise BinaryError(f"{name} data is damaged: {error}") from error
    raise BinaryError(f"neither ELF nor gzip, xz or zstd (it begins with {data[:4].hex() or '-'})")


def _bounded(data: bytes) -> bytes:
    if len(data) > _MAX_SIZE:
        raise BinaryError(f"unpacks to more than {_MAX_SIZE} bytes")
    return data


def _gunzip(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data, _MAX_SIZE + 1)


def _unxz(data: bytes) -> bytes:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data, _MAX_SIZE + 1)


def _unzstd(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        return reader.read(_MAX_SIZE + 1)


_COMPRESSIONS: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": ("gzip", _gunzip),
    b"\xfd7zXZ\0": ("xz", _unxz),
    b"\x28\xb5\x2f\xfd": ("zstd", _unzstd),
}


def _read(path: Path, unpack: Callable[[bytes], bytes]) -> bytes:
    """Return the unpacked contents of a file. Raises BinaryError with the file's path."""
    try:
        return unpack(path.read_bytes())
    except OSError as error:
        raise BinaryError(f"{path}: {error.strerror}") from error
    except BinaryError as error:
        raise BinaryError(f"{path}: {error}") from error


def _section(path: Path, image: bytes, name: str) -> bytes:
    """Return the bytes of an ELF section.

    Raises BinaryError for a damaged file and a section that is missing or not in the file. The
    function cuts the bytes itself: pyelftools would allocate any size that it reads.
    """
    try:
        section = ELFFile(io.BytesIO(image)).get_section_by_name(name)
    # pyelftools raises these when a header or a name points outside the file.
    except (ELFError, ConstructError, OverflowError, ValueError) as error:
        raise BinaryError(f"{path}: damaged ELF file: {error}") from error
    if section is None:
        raise BinaryError(f"{path}: no section {name}")
    start, size = int(section["sh_offset"]), int(section["sh_size"])
    if section["sh_type"] != "SHT_PROGBITS" or start + size > len(image):
        raise BinaryError(f"{path}: section {name} is not in the file")
    return image[start : start + size]


def _btf(path: Path, image: bytes, base: Btf | None = None) -> Btf:
    """Return the BTF in an ELF image. Raises BinaryError if there is none or if it is invalid."""
    try:
        return Btf(_section(path, image, ".BTF"), base)
    except BtfError as error:
        raise BinaryError(f"{path}: {error}") from error


def _release(path: Path, data: bytes, pattern: re.Pattern[bytes]) -> str:
    """Return the kernel release that the data name. Raises BinaryError without one."""
    match = pattern.search(data)
    if match is None:
        raise BinaryError(f"{path}: does not name its kernel release")
    return match[1].decode("ascii", "replace")
