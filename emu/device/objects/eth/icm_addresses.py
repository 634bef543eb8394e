"""ICM addresses of objects, which steering entries use as final destinations.

The device reports an address with its object, and some with the capabilities. Only the device
interprets them: a kind and a number, in units of an entry, above all software ICM.

Source: core/steering/dr_domain.c: dr_domain_caps_init; mlx5_ifc.h: create_tir_out,
query_esw_vport_context_out, flow_table_nic_cap.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

_LOG_UNIT: Final = 6
_KIND_SHIFT: Final = 32
_VPORT_BITS: Final = 16


class IcmKind(IntEnum):
    """Kind of object at an address."""

    RX_DROP = 0x40
    TX_DROP = 0x41
    TX_ALLOW = 0x42
    FDB_RX_DROP = 0x43
    FDB_TX_DROP = 0x44
    TIR = 0x48
    FLOW_TABLE = 0x49
    VPORT_RX = 0x4A
    VPORT_TX = 0x4B
    SAMPLER = 0x4C


DROPS: Final = frozenset(
    {IcmKind.RX_DROP, IcmKind.TX_DROP, IcmKind.FDB_RX_DROP, IcmKind.FDB_TX_DROP}
)
_KINDS: Final[dict[int, IcmKind]] = {kind.value: kind for kind in IcmKind}


def icm_address(kind: IcmKind, number: int = 0) -> int:
    """Return the address of an object; ``number`` is 0 for kinds with one object."""
    return kind << _KIND_SHIFT | number << _LOG_UNIT


def place_at(address: int) -> tuple[IcmKind, int] | None:
    """Return the kind and number at an address; None if the kind is unknown.

    Whether an object with the number exists is not checked.
    """
    kind = _KINDS.get(address >> _KIND_SHIFT)
    return None if kind is None else (kind, (address & (1 << _KIND_SHIFT) - 1) >> _LOG_UNIT)


def vport_address(kind: IcmKind, port: int, number: int) -> int:
    """Return the address of a vPort of the switch behind a physical port of the board."""
    return icm_address(kind, port - 1 << _VPORT_BITS | number)


def vport_of(number: int) -> tuple[int, int]:
    """Return the port and number of the vPort with this number in addresses."""
    return (number >> _VPORT_BITS) + 1, number & (1 << _VPORT_BITS) - 1


def parts(address: int) -> dict[str, int]:
    """Return an address as the fields of a command's output; icm_address_63_40 stays 0."""
    return {
        "icm_address_31_0": address & 0xFFFF_FFFF,
        "icm_address_39_32": address >> 32,
    }
