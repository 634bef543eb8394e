"""A function's identity: the numbers and strings in configuration space."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

VENDOR_MELLANOX: Final = 0x15B3
CLASS_INFINIBAND: Final = 0x020700
CLASS_ETHERNET: Final = 0x020000

_UUID_SPACE: Final = uuid.UUID("6d6c7835-656d-5500-8000-000000000000")


class LinkSpeed(IntEnum):
    """PCI Express transfer rates, as Link Status encodes them (Base 5.0, 7.5.3.8)."""

    GT_2_5 = 1
    GT_5 = 2
    GT_8 = 3
    GT_16 = 4
    GT_32 = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PciIdentity:
    """Identity of one PCI function.

    mlx5_core derives from ``device_id`` alone whether a function is a PF or a VF (core/main.c:
    mlx5_core_pci_table), so ``is_vf`` has to agree with it. Strings are ASCII, up to 255
    characters.
    """

    vendor_id: int = VENDOR_MELLANOX
    device_id: int
    subsystem_vendor_id: int = VENDOR_MELLANOX
    subsystem_id: int
    revision: int = 0
    class_code: int = CLASS_INFINIBAND
    is_vf: bool = False
    link_speed: LinkSpeed
    link_width: int = 16
    """Number of lanes."""
    product_name: str
    """VPD identifier string."""
    part_number: str
    """VPD keywords PN and V2."""
    engineering_changes: str = "A1"
    """VPD keyword EC."""
    serial_number: str = "EMU0"
    """VPD keyword SN."""
    board_uuid: str = "0" * 32
    """VPD keyword V3. Linux 7.2 assigns functions with the same V3 to one board, with one shared
    devlink instance (core/sh_devlink.c: mlx5_shd_init).
    """

    def with_guid(self, guid: int) -> PciIdentity:
        """Return this identity with a serial number and board UUID that follow from the GUID.

        Functions with one GUID get the same values.
        """
        text = f"{guid:016X}"
        return replace(
            self,
            serial_number=f"EMU{text}",
            board_uuid=uuid.uuid5(_UUID_SPACE, text).hex,
        )
