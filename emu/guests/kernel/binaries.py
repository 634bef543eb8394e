"""Kernel images: finds the release of one, and extracts the plain ELF.

QEMU starts an ELF with a PVH note directly, so the guest need not decompress its own kernel. On
emulated processors this saves one second for zstd and three for xz. The executed code is the same.
Format: Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header".
"""

from __future__ import annotations

import bz2
import lzma
import mmap
import struct
import zlib
from pathlib import Path
from typing import Final

import zstandard

from emu.guests.architecture import NATIVE, Architecture
from emu.guests.errors import LabError

_MAX_MODULE = 256 << 20
"""Maximum bytes of an unpacked module: far above the size with debugging information."""
_SECTOR = 512
_SETUP_SECTS = 0x1F1
_MAGIC = 0x202
_VERSION_POINTER = 0x20E  # holds the version string's offset minus 0x200
_PAYLOAD_OFFSET = 0x248
_HEADER_END = 0x250
_HEAD = 0x10010
"""Bytes of a file that contain the magic number of any architecture."""
_UML_BANNER: Final = b"User Mode Linux v"
"""arch/um/kernel/um_arch.c: usage_string."""
_BOOT_MAGIC: Final = {
    # Debian's architecture: offset and bytes of the kernel's magic number, and the file's format
    "arm64": (0x38, b"ARM\x64", "arm64 Image (Documentation/arch/arm64/booting.rst)"),
    "armhf": (0x24, b"\x18\x28\x6f\x01", "zImage of arm"),
    "ppc64el": (0, b"\x7fELF\x02\x01", "vmlinux of ppc64el"),
    "riscv64": (0x38, b"RSC\x05", "riscv Image (Documentation/arch/riscv/boot-image-header.rst)"),
    "s390x": (0x10008, b"S390EP", "bzImage of s390x"),
}
_ELF_MACHINE: Final = {"ppc64el": 21}  # EM_PPC64
_EFI_ZBOOT: Final = {"arm64", "riscv64"}
_ZBOOT_MAGIC: Final = b"MZ\0\0zimg"  # drivers/firmware/efi/libstub/zboot-header.S
_PVH_NOTE = struct.pack("<III", 4, 8, 18) + b"Xen\0"  # XEN_ELFNOTE_PHYS32_ENTRY, 64-bit value
_PVH_NOTE_32 = struct.pack("<III", 4, 4, 18) + b"Xen\0"


def is_uml(kernel: Path | None) -> bool:
    """Return whether a kernel's file is a User-Mode Linux program; False for None or no file."""
    if kernel is None or not kernel.is_file() or not kernel.stat().st_size:
        return False
    with kernel.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data[:4] == b"\x7fELF" and data.find(_UML_BANNER) >= 0


def release(path: Path) -> str:
    """Return the release (``uname -r``) of a bzImage; :class:`LabError` for another file."""
    head = _bzimage(path)
    at = struct.unpack_from("<H", head, _VERSION_POINTER)[0] + _SECTOR
    words = head[at : at + 256].split(b"\0", 1)[0].split()
    if not words:
        raise LabError(f"{path} contains no kernel release")
    return words[0].decode("ascii", "replace")


def extract_vmlinux(path: Path) -> bytes | None:
    """Return the ELF inside a bzImage; None if it cannot be unpacked or has no PVH note for QEMU.

    Raises LabError for a file that is no bzImage or cannot be read.
    """
    data = _bzimage(path)
    start = (data[_SETUP_SECTS] or 4) * _SECTOR + _SECTOR
    offset, length = struct.unpack_from("<II", data, _PAYLOAD_OFFSET)
    payload = data[start + offset :][:length]
    elf = _unpack(payload)
    if elf is None or not elf.startswith(b"\x7fELF"):
        return None
    return elf if _PVH_NOTE in elf or _PVH_NOTE_32 in elf else None


def check_kernel(path: Path, arch: Architecture = NATIVE) -> None:
    """Raise LabError for an unreadable file, and for one that is no kernel of ``arch``.

    An amd64 kernel is a bzImage or User-Mode Linux.
    """
    try:
        if arch.name == "amd64" and is_uml(path):
            return
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise LabError(f"cannot read the kernel {path}: {error.strerror}") from error
    if arch.name == "amd64":
        _check_head(path, head)
    elif not _is_kernel(head, arch.debian):
        raise LabError(f"{path} is no {_BOOT_MAGIC[arch.debian][2]}: {arch.boot_file} is one")


def _is_kernel(head: bytes, debian: str) -> bool:
    """Return whether a file that begins with ``head`` is a kernel of a processor but amd64."""
    if debian in _EFI_ZBOOT and head.startswith(_ZBOOT_MAGIC):
        return True
    at, magic, _ = _BOOT_MAGIC[debian]
    if head[at : at + len(magic)] != magic:
        return False
    machine = _ELF_MACHINE.get(debian)
    return machine is None or int.from_bytes(head[18:20], "little") == machine


def _bzimage(path: Path) -> bytes:
    """Return a bzImage's contents; LabError if it is unreadable or no bzImage."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read the kernel {path}: {error.strerror}") from error
    _check_head(path, data)
    return data


def _check_head(path: Path, head: bytes) -> None:
    """Raise LabError unless ``head`` begins a bzImage (signature HdrS).

    The error for an ELF names bzImage.
    """
    if len(head) >= _HEADER_END and head[_MAGIC : _MAGIC + 4] == b"HdrS":
        return
    hint = ""
    if head.startswith(b"\x7fELF"):
        hint = ": choose arch/x86/boot/bzImage of the same build tree, not vmlinux"
    raise LabError(f"{path} is not a Linux bzImage{hint}")


def _unpack(payload: bytes) -> bytes | None:
    """Return the payload decompressed from zstd, xz, gzip or bzip2; None if it is damaged.

    A payload of another format is returned unchanged. The size that the kernel appends is ignored.
    """
    try:
        if payload.startswith(b"\x28\xb5\x2f\xfd"):
            return zstandard.ZstdDecompressor().decompressobj().decompress(payload)
        if payload.startswith(b"\xfd7zXZ\0"):
            return lzma.LZMADecompressor().decompress(payload)
        if payload.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(payload)
        if payload.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(payload)
    except (lzma.LZMAError, zlib.error, OSError, zstandard.ZstdError):
        return None
    return payload


def unpack_module(name: str, data: bytes) -> bytes:
    """Return a module's uncompressed contents, as the initramfs needs them.

    The file may come from a guest. Raises LabError for contents that cannot be unpacked, or that
    are larger than any module.
    """
    unpacked, is_whole = data, True
    try:
        if name.endswith(".xz"):
            xz = lzma.LZMADecompressor()
            unpacked, is_whole = xz.decompress(data, _MAX_MODULE + 1), xz.eof
        elif name.endswith(".gz"):
            gz = zlib.decompressobj(wbits=31)
            unpacked, is_whole = gz.decompress(data, _MAX_MODULE + 1), gz.eof
        elif name.endswith(".zst"):
            zst = zstandard.ZstdDecompressor(max_window_size=_MAX_MODULE).stream_reader(data)
            unpacked = zst.read(_MAX_MODULE + 1)
    except (lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise LabError(f"{name} cannot be unpacked: {error}") from None
    if len(unpacked) > _MAX_MODULE:
        raise LabError(f"{name} exceeds {_MAX_MODULE >> 20} MiB when unpacked")
    if not is_whole:
        raise LabError(f"{name} cannot be unpacked: it is truncated")
    return unpacked
