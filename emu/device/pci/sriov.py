"""The SR-IOV extended capability of a physical function (PF).

Virtual functions (VFs) cannot migrate here, and each has one 64-bit BAR, BAR 0. Sections cited are
those of PCI Express Base 5.0, chapter 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from emu.device.pci.capabilities import ExtendedCapability, bar_pair
from emu.device.pci.registers import Register, RegisterWindow, dword, ro, rw, word

CAP_ID: Final = 0x0010

FIRST_VF_OFFSET: Final = 1
VF_STRIDE: Final = 1
"""Routing IDs: VF n, from 1 on, is n functions after its PF on the same bus (9.2.1.2)."""

_VF_ENABLE: Final = 1 << 0
_VF_MEMORY_SPACE: Final = 1 << 3
_ADDRESS: Final = ~0xF
_HALF: Final = 0xFFFF_FFFF
_LOG_SYSTEM_PAGE: Final = 12
_SYSTEM_PAGES: Final = 0x7FF
"""Supported Page Sizes, as on adapters: all from 4 KiB to 4 MiB."""


@dataclass(frozen=True, slots=True)
class SriovLayout:
    """The values that the capability of a PF advertises about its VFs."""

    total_vfs: int
    vf_device_id: int
    vf_bar_bytes: int
    """Size of BAR 0 of each VF, a power of two of at least 4 KiB."""


@cache
def sriov_capability(layout: SriovLayout) -> ExtendedCapability:
    """Return the capability (9.3.3).

    NumVFs and System Page Size keep their value while VF Enable is set, and when a write would make
    them invalid: above TotalVFs, or no single supported page size. Each VF's BAR 0 takes at least a
    system page, so the VF BAR is aligned to that too.
    """
    low, high = bar_pair(layout.vf_bar_bytes, 0, first=0x24)

    def num_vfs_written(regs: RegisterWindow, before: int) -> None:
        if regs["control"] & _VF_ENABLE or regs["num_vfs"] > layout.total_vfs:
            regs["num_vfs"] = before

    def page_size_written(regs: RegisterWindow, before: int) -> None:
        size = regs["system_page_size"]
        is_valid = size & _SYSTEM_PAGES == size and size.bit_count() == 1
        if regs["control"] & _VF_ENABLE or not is_valid:
            regs["system_page_size"] = before
        align_vf_bar(regs, 0)

    def align_vf_bar(regs: RegisterWindow, _before: int) -> None:
        regs["bar0"] &= -vf_bar_stride(regs, layout) | ~_ADDRESS

    return ExtendedCapability(
        "sriov",
        CAP_ID,
        1,
        0x40,
        (
            dword("capabilities", 0x04),
            word("control", 0x08, rw("vf_enable", 0), rw("vf_memory_space", 3), rw("ari", 4)),
            word("status", 0x0A),
            word("initial_vfs", 0x0C, ro("number", 0, 16, layout.total_vfs)),
            word("total_vfs", 0x0E, ro("number", 0, 16, layout.total_vfs)),
            Register("num_vfs", 0x10, 2, (rw("number", 0, 16),), on_write=num_vfs_written),
            Register("function_dependency_link", 0x12, 1),
            word("first_vf_offset", 0x14, ro("routing_ids", 0, 16, FIRST_VF_OFFSET)),
            word("vf_stride", 0x16, ro("routing_ids", 0, 16, VF_STRIDE)),
            word("vf_device_id", 0x1A, ro("id", 0, 16, layout.vf_device_id)),
            dword("supported_page_sizes", 0x1C, ro("sizes", 0, 32, _SYSTEM_PAGES)),
            Register(
                "system_page_size",
                0x20,
                4,
                (rw("size", 0, 32, reset=1),),
                on_write=page_size_written,
            ),
            replace(low, on_write=align_vf_bar),
            high,
        ),
    )


def enabled_vfs(regs: RegisterWindow) -> int:
    """Return how many VFs exist on the bus: NumVFs while VF Enable is set, else 0."""
    return regs["num_vfs"] if regs["control"] & _VF_ENABLE else 0


def decodes_vf_memory(regs: RegisterWindow) -> bool:
    """Return whether the VFs' BARs are decoded: VF Enable and VF Memory Space Enable."""
    both = _VF_ENABLE | _VF_MEMORY_SPACE
    return regs["control"] & both == both


def vf_bar(regs: RegisterWindow) -> int:
    """Return the address of the first VF's BAR 0; those of other VFs follow it (9.2.1.1.1)."""
    return regs["bar1"] << 32 | regs["bar0"] & _ADDRESS


def vf_bar_stride(regs: RegisterWindow, layout: SriovLayout) -> int:
    """Return the bytes from one VF's BAR 0 to the next: its size, or a larger system page."""
    return max(layout.vf_bar_bytes, regs["system_page_size"] << _LOG_SYSTEM_PAGE)


def holds_sizing_pattern(regs: RegisterWindow, layout: SriovLayout) -> bool:
    """Return whether a half of the VF BAR holds the ones by which software sizes it."""
    low = -vf_bar_stride(regs, layout) & _ADDRESS & _HALF
    return regs["bar1"] == _HALF or regs["bar0"] & _ADDRESS == low
