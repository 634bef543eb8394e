"""The type 0 header, and the capabilities whose registers have no side effects.

Each such capability is built once and shared by all functions that have it.

Sections cited are those of PCI Express Base 5.0. Capabilities with behaviour have modules of their
own: ``express``, ``aer``, ``vpd`` and ``vsc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from emu.device.pci.identity import PciIdentity
from emu.device.pci.registers import Block, Register, RegisterWindow, dword, ro, rw, w1c, word

D0: Final = 0
D3_HOT: Final = 3

_COMMAND: Final = (
    rw("memory_space", 1),
    rw("bus_master", 2),
    rw("parity_error_response", 6),
    rw("serr_enable", 8),
    rw("interrupt_disable", 10),
)
_STATUS: Final = (
    ro("capabilities_list", 4),
    w1c("master_data_parity_error", 8),
    w1c("signaled_target_abort", 11),
    w1c("received_target_abort", 12),
    w1c("received_master_abort", 13),
    w1c("signaled_system_error", 14),
    w1c("detected_parity_error", 15),
)


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability of the list that starts in the header: its registers after the two-byte head."""

    name: str
    cap_id: int
    size: int
    registers: tuple[Register, ...]

    def linked(self, next_at: int) -> Block:
        """Return the block with its head, which points to the next capability (0 ends the list)."""
        head = word("head", 0, ro("id", 0, 8, self.cap_id), ro("next", 8, 8, next_at))
        return Block(self.name, self.size, (head, *self.registers))


@dataclass(frozen=True, slots=True)
class ExtendedCapability:
    """A capability of the list that starts at 0x100: its registers after the four-byte head."""

    name: str
    cap_id: int
    version: int
    size: int
    registers: tuple[Register, ...]

    def linked(self, next_at: int) -> Block:
        """Return the block with its head, which points to the next capability (0 ends the list)."""
        head = dword(
            "head",
            0,
            ro("id", 0, 16, self.cap_id),
            ro("version", 16, 4, self.version),
            ro("next", 20, 12, next_at),
        )
        return Block(self.name, self.size, (head, *self.registers))


def chain(
    placed: Sequence[tuple[int, Capability | ExtendedCapability]],
) -> list[tuple[int, Block]]:
    """Return the blocks of capabilities, linked in the order given, each with its address.

    The last one ends the list.
    """
    following = [at for at, _ in placed[1:]] + [0]
    return [
        (at, capability.linked(next_at))
        for (at, capability), next_at in zip(placed, following, strict=True)
    ]


def header(identity: PciIdentity, bar0_size: int, bar2_size: int, first_capability: int) -> Block:
    """Return the type 0 header (7.5.1): no INTx, no expansion ROM.

    The header has a 64-bit prefetchable memory BAR, and a second one unless its size is 0.
    """
    return Block(
        "header",
        0x40,
        (
            word("vendor", 0x00, ro("id", 0, 16, identity.vendor_id)),
            word("device", 0x02, ro("id", 0, 16, identity.device_id)),
            word("command", 0x04, *_COMMAND),
            word("status", 0x06, *_STATUS),
            dword(
                "class_revision",
                0x08,
                ro("revision", 0, 8, identity.revision),
                ro("class_code", 8, 24, identity.class_code),
            ),
            # Kept for old software; has no effect on a PCI Express function (7.5.1.1.7).
            Register("cache_line_size", 0x0C, 1, (rw("size", 0, 8),)),
            *bar_pair(bar0_size, 0),
            *(bar_pair(bar2_size, 2) if bar2_size else ()),
            word("subsystem_vendor", 0x2C, ro("id", 0, 16, identity.subsystem_vendor_id)),
            word("subsystem", 0x2E, ro("id", 0, 16, identity.subsystem_id)),
            Register("capabilities", 0x34, 1, (ro("pointer", 0, 8, first_capability),)),
            Register("interrupt_line", 0x3C, 1, (rw("line", 0, 8),)),
        ),
    )


def bar_pair(size: int, number: int, first: int = 0x10) -> tuple[Register, Register]:
    """Return a 64-bit prefetchable memory BAR: its lower and its upper half.

    Address bits below the size are hardwired to 0; software computes the size from them. ``size``
    is a power of two, ``number`` that of the lower half, ``first`` the offset of BAR 0 in the
    block.
    """
    shift = size.bit_length() - 1
    low, high = min(shift, 32), max(shift - 32, 0)
    return (
        dword(
            f"bar{number}",
            first + 4 * number,
            ro("type", 1, 2, 2),
            ro("prefetchable", 3),
            rw("address", low, 32 - low),
        ),
        dword(f"bar{number + 1}", first + 4 + 4 * number, rw("address", high, 32 - high)),
    )


@cache
def power_management() -> Capability:
    """Return power management version 3 (7.5.2): D0 and D3hot, no PME, no reset on return to D0."""
    return Capability(
        "power",
        0x01,
        8,
        (
            word("capabilities", 2, ro("version", 0, 3, 3)),
            Register(
                "control",
                4,
                2,
                (rw("power_state", 0, 2), ro("no_soft_reset", 3)),
                on_write=_refuse_missing_states,
            ),
        ),
    )


def _refuse_missing_states(regs: RegisterWindow, before: int) -> None:
    """Restore the value before a write that requests the unsupported D1 or D2 (7.5.2.2)."""
    if regs["control"] & 3 not in (D0, D3_HOT):
        regs["control"] = before


@cache
def msix(vectors: int, table_offset: int, pba_offset: int) -> Capability:
    """Return the MSI-X capability (7.7.2), with table and pending bits in BAR 0."""
    return Capability(
        "msix",
        0x11,
        12,
        (
            word(
                "control",
                2,
                ro("table_size", 0, 11, vectors - 1),
                rw("function_mask", 14),
                rw("enable", 15),
            ),
            dword("table", 4, ro("bir", 0, 3, 0), ro("offset", 3, 29, table_offset >> 3)),
            dword("pba", 8, ro("bir", 0, 3, 0), ro("offset", 3, 29, pba_offset >> 3)),
        ),
    )


@cache
def alternative_routing() -> ExtendedCapability:
    """Return Alternative Routing-ID Interpretation (7.8.7): no next function, and no groups."""
    return ExtendedCapability("ari", 0x000E, 1, 8, (word("capabilities", 4), word("control", 6)))


@cache
def secondary_express(lanes: int) -> ExtendedCapability:
    """Return Secondary PCI Express (7.7.3): no lane errors, and no writable fields."""
    return ExtendedCapability(
        "secondary_express",
        0x0019,
        1,
        12 + 2 * lanes,
        (dword("link_control_3", 4), dword("lane_error_status", 8)),
    )


@cache
def access_control() -> ExtendedCapability:
    """Return Access Control Services (7.7.8): none, because the function sends nothing to
    others.
    """
    return ExtendedCapability("acs", 0x000D, 1, 8, (word("capabilities", 4), word("control", 6)))
