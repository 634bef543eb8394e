"""Decoding of STEs: each is decoded once and cached until ICM is written.

Source: core/steering/dr_ste_v1.c; core/steering/dr_ste.c: mlx5dr_ste_calc_hash_index.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from emu.device.engine.eth.ste.actions import NOTHING, ActionPlan, BadActionError, Planner
from emu.device.engine.eth.ste.definers import DEFINERS, FieldSelection
from emu.device.objects.memory.sw_icm import STE_BYTES
from layouts.steering.ste import ste_mask_and_match_v1, ste_match_bwc_v1

_BWC: Final = {0: 0x0000, 1: 0x0100}
"""Formats with a byte mask, and the upper byte of their lookup types."""
_MASKED: Final = {2: 0x0000, 3: 0x0100}
"""Formats with a third action word in place of the byte mask."""
_MATCH: Final = 4
"""Format with a longer tag and no mask; only definers created by drivers use it fully."""
_DONT_CARE: Final = 0x0F
_HEAD_BYTES: Final = 32
_HALF: Final = 16
_ALL: Final = 0xFFFF_FFFF
_ENTRY_BYTES: Final = 1024
_ACTION_BYTES: Final = 512
"""Host bytes of an action, with the step that it becomes."""


class BadEntryError(Exception):
    """The bytes are not a supported STE; the text names the fault."""


class Ste(NamedTuple):
    """A decoded STE."""

    definer: FieldSelection | None
    """None: the STE compares its mask and tag only, for any packet."""
    mask: int
    tag: int
    miss: int
    """Address of the next STE on a mismatch."""
    base: int
    """Address of the next STE's table on a match."""
    size: int
    """Number of STEs in that table."""
    hasher: FieldSelection | None
    """Fields over which that table is hashed, if it has more than one STE."""
    bytes_hashed: int
    counter: int
    plan: ActionPlan

    @property
    def host_bytes(self) -> int:
        """Number of bytes on the host."""
        return _ENTRY_BYTES + _ACTION_BYTES * self.plan.actions


def decoded(data: bytes, planner: Planner) -> Ste:
    """Return the STE decoded from 64 bytes.

    Raises BadEntryError for an unsupported format, lookup type or action. Raises BadEntryError for
    an entry that leads to a table of several entries with a meter, or without a byte mask.
    """
    head = ste_match_bwc_v1.view(data)
    kind = head.entry_format
    if kind not in _BWC and kind not in _MASKED and kind != _MATCH:
        raise BadEntryError(f"entry_format {kind:#x} not supported")
    if head.match_polarity or head.hash_type or head.hash_after_actions:
        raise BadEntryError("match_polarity, hash_type or hash_after_actions not supported")
    mask = int.from_bytes(data[_HEAD_BYTES : _HEAD_BYTES + _HALF], "big")
    tag = int.from_bytes(data[_HEAD_BYTES + _HALF : STE_BYTES], "big")
    if kind == _MATCH:
        if head.match_definer_ctx_idx != _DONT_CARE:
            raise BadEntryError("match_definer_ctx_idx of a driver's own definer not supported")
        mask, tag = 0, mask << 8 * _HALF | tag
    base_and_size = head.next_table_base_39_32_size << 27 | head.next_table_base_31_5_size
    size = base_and_size & -base_and_size
    hasher, mask_of_bytes = None, 0
    if size > 1:
        if kind not in _BWC:
            raise BadEntryError("entry without a byte mask leads to a table of several entries")
        mask_of_bytes = _widened(head.byte_mask)
        if mask_of_bytes:
            hasher = _selected(
                head.next_entry_format << 8 | head.hash_definer_ctx_idx, mask_of_bytes
            )
    try:
        action = head.action if kind in _BWC else ste_mask_and_match_v1.view(data).action
        plan = planner.plan(action) if any(action) else NOTHING
    except BadActionError as error:
        raise BadEntryError(str(error)) from None
    if plan.meter is not None and size > 1:
        raise BadEntryError("entry with a meter leads to a table of several entries")
    definer = None
    if mask:
        upper = _BWC[kind] if kind in _BWC else _MASKED[kind]
        definer = _selected(upper | head.match_definer_ctx_idx, mask)
    return Ste(
        definer, mask, tag, (head.miss_address_39_32 << 26 | head.miss_address_31_6) << 6,
        (base_and_size ^ size) << 5, size, hasher, mask_of_bytes, head.counter_id, plan,
    )  # fmt: skip


def _selected(lookup: int, need: int) -> FieldSelection:
    """Return the fields of a lookup type. Raises BadEntryError for an unsupported lookup type."""
    definer = DEFINERS.get(lookup)
    if definer is None:
        raise BadEntryError(f"lookup type {lookup:#06x} not supported")
    return definer.select(need)


def _widened(byte_mask: int) -> int:
    """Return a byte mask with each bit widened to one byte."""
    mask = 0
    for n in range(_HALF):
        if byte_mask >> n & 1:
            mask |= 0xFF << 8 * n
    return mask


def hash_index(value: int, size: int) -> int:
    """Return the index of 16 hashed bytes in a table of ``size`` STEs: a byte-swapped CRC-32."""
    crc = crc32(value.to_bytes(_HALF, "big"), _ALL) ^ _ALL
    return int.from_bytes(crc.to_bytes(4, "little"), "big") & size - 1
