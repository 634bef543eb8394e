"""Vital Product Data: the image, and the two registers through which it is read.

PCI Local Bus 3.0, appendix I: resources in PnP format (identifier string, read-only keywords, end
tag), read four bytes at a time through an address register with a flag. Its readers are
drivers/pci/vpd.c and, from Linux 7.2, core/sh_devlink.c: mlx5_shd_init, where an unreadable VPD
makes the probe of a PF fail.
"""

from __future__ import annotations

from typing import Final

from emu.device.pci.capabilities import Capability
from emu.device.pci.identity import PciIdentity
from emu.device.pci.registers import Register, RegisterWindow, dword, ro, rw

CAP_ID: Final = 0x03
FLAG: Final = 0x8000

_IDENTIFIER_STRING: Final = 0x82
_READ_ONLY: Final = 0x90
_END: Final = 0x78
_MAX_KEYWORD_BYTES: Final = 255
_FIELDS: Final = "MLX:MN=EMU:CSKU=V2:UUID=V3:PCI=V0"
"""Names of the other keywords for the vendor's tools, and the manufacturer."""


def build_image(identity: PciIdentity) -> bytes:
    """Return the VPD of a product, padded with zeros to whole words.

    Contains the identifier string and the read-only keywords, with a checksum in RV. Raises
    ValueError for a string that is not ASCII or has more than 255 characters.
    """
    name = _resource(_IDENTIFIER_STRING, _text(identity.product_name))
    fields = b"".join(
        keyword + bytes([len(value)]) + value
        for keyword, value in (
            (b"PN", _text(identity.part_number)),
            (b"EC", _text(identity.engineering_changes)),
            (b"V2", _text(identity.part_number)),
            (b"SN", _text(identity.serial_number)),
            (b"V3", _text(identity.board_uuid)),
            (b"VA", _text(_FIELDS)),
            (b"V0", _text(f"PCIeGen{identity.link_speed.value} x{identity.link_width}")),
        )
    )
    # RV is the last keyword. Its one byte makes the sum of all bytes up to here zero.
    image = name + _resource(_READ_ONLY, fields + b"RV\x01\x00")
    image = image[:-1] + bytes([-sum(image) & 0xFF]) + bytes([_END])
    return image + bytes(-len(image) % 4)


def _text(value: str) -> bytes:
    """Return the string as ASCII bytes. Raises ValueError if it is not ASCII or too long."""
    text = value.encode("ascii")
    if len(text) > _MAX_KEYWORD_BYTES:
        raise ValueError(f"VPD string of {len(text)} characters, at most {_MAX_KEYWORD_BYTES}")
    return text


def _resource(tag: int, body: bytes) -> bytes:
    """Return a large resource: tag, 16-bit length, body."""
    return bytes([tag]) + len(body).to_bytes(2, "little") + body


def vpd_capability(image: bytes) -> Capability:
    """Return the capability that reads ``image``.

    Writing an address with the flag clear loads the data register and sets the flag at once; data
    beyond the image reads as zero. Writing it with the flag set requests a write, which a read-only
    image ignores: only the flag is cleared.
    """

    def start(regs: RegisterWindow, _before: int) -> None:
        """Load a word and set the flag; ignore a request to write, and clear the flag."""
        if regs["address"] & FLAG:
            regs["address"] &= ~FLAG
            return
        at = regs["address"] & ~3
        regs["data"] = int.from_bytes(image[at : at + 4], "little")
        regs["address"] |= FLAG

    address = Register(
        "address", 2, 2, (rw("address", 0, 15), rw("flag", 15)), on_write=start, trigger=FLAG
    )
    data = dword("data", 4, ro("data", 0, 32, 0))
    return Capability("vpd", CAP_ID, 8, (address, data))
