"""The EEPROM of the plugged cable: a passive copper cable of one metre.

``ethtool -m`` reads the EEPROM. The memory is flat and has only page 0.

Source: SFF-8636 (QSFP28), SFF-8472 (SFP28), SFF-8024 (identifiers).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from layouts.enums.regs import ModuleId

PAGE_BYTES: Final = 256
I2C_ADDRESS: Final = 0x50
I2C_DIAGNOSTICS: Final = 0x51
"""Second address of SFP modules, for diagnostics, which a passive cable does not have."""

_VENDOR: Final = b"mlx5emu".ljust(16)
_PART: Final = b"MLX5EMU-DAC1M".ljust(16)
_SERIAL: Final = b"EMU0".ljust(16)
_DATE: Final = b"260101  "
_QSFP_COPPER: Final = 0x23
_SFP_COPPER: Final = 0x21
_PASSIVE_QSFP: Final = 0xA0
_PASSIVE_SFP: Final = 0x04
_64B66B_QSFP, _64B66B_SFP = 0x05, 0x06
_CR4_OR_CR: Final = 0x0B
"""100GBASE-CR4 or 25GBASE-CR CA-25G-L."""
_METRES: Final = 1
_QSFP28_CABLE, _SFP28_CABLE = 0, 2
"""Values of pddr_module_info.cable_identifier."""
_QSFP_TEXT: Final = {"vendor_name": (148, 16), "vendor_pn": (168, 16), "vendor_sn": (196, 16)}
_SFP_TEXT: Final = {"vendor_name": (20, 16), "vendor_pn": (40, 16), "vendor_sn": (68, 16)}
"""Start and length in the EEPROM, by name in pddr_module_info."""


@cache
def eeprom(lanes: int) -> bytes:
    """Return page 0, PAGE_BYTES long, of the cable: SFP28 for one lane, QSFP28 for more."""
    page = bytearray(PAGE_BYTES)
    if lanes == 1:
        _fill_sfp(page)
    else:
        _fill_qsfp(page)
    return bytes(page)


def _put(page: bytearray, fields: dict[int, bytes]) -> None:
    for at, octets in fields.items():
        page[at : at + len(octets)] = octets


def _sum(page: bytearray, start: int, stop: int) -> None:
    """Store the check byte at ``stop`` over the bytes from ``start`` up to it."""
    page[stop] = sum(page[start:stop]) & 0xFF


def _fill_qsfp(page: bytearray) -> None:
    """Write identifier, copper media, vendor fields and check bytes of SFF-8636."""
    kind = bytes((ModuleId.QSFP28,))
    fields = {0: kind + b"\x08\x06", 128: kind, 130: bytes((_QSFP_COPPER,))}
    fields |= {131: b"\x80", 139: bytes((_64B66B_QSFP, 0xFF)), 146: bytes((_METRES, _PASSIVE_QSFP))}
    fields |= {148: _VENDOR, 168: _PART, 184: b"A1", 192: bytes((_CR4_OR_CR,))}
    fields |= {196: _SERIAL, 212: _DATE, 222: b"\x67"}
    _put(page, fields)
    _sum(page, 128, 191)
    _sum(page, 192, 223)


def _fill_sfp(page: bytearray) -> None:
    """Write identifier, copper media, vendor fields and check bytes of SFF-8472."""
    fields = {0: bytes((ModuleId.SFP, 0x04, _SFP_COPPER)), 8: bytes((_PASSIVE_SFP,))}
    fields |= {11: bytes((_64B66B_SFP, 0xFF)), 18: bytes((_METRES,))}
    fields |= {20: _VENDOR, 36: bytes((_CR4_OR_CR,)), 40: _PART, 56: b"A1  "}
    fields |= {66: b"\x67", 68: _SERIAL, 84: _DATE}
    _put(page, fields)
    _sum(page, 0, 63)
    _sum(page, 64, 95)


def described(lanes: int) -> dict[str, Any]:
    """Return the cable's properties by their names in pddr_module_info, from its EEPROM."""
    page = eeprom(lanes)
    is_sfp = lanes == 1
    text = _SFP_TEXT if is_sfp else _QSFP_TEXT
    return {
        "cable_identifier": _SFP28_CABLE if is_sfp else _QSFP28_CABLE,
        "cable_technology": page[8 if is_sfp else 147],
        "cable_length": page[18 if is_sfp else 146],
        "ethernet_compliance_code": page[3 if is_sfp else 131],
        "ext_ethernet_compliance_code": page[36 if is_sfp else 192],
        **{name: page[at : at + size] for name, (at, size) in text.items()},
        "vendor_rev": page[56:60] if is_sfp else page[184:186].rjust(4, b"\0"),
    }
