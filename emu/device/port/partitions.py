"""Partition keys: permission to communicate on a subnet (IBTA volume 1, 10.9.1 to 10.9.3).

A P_Key is 15 bits of partition number and one bit of membership. Two ports may communicate within a
partition unless both are limited members of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

PKEY_NUMBER: Final = 0x7FFF
PKEY_FULL_MEMBER: Final = 0x8000


def is_same_partition(one: int, other: int) -> bool:
    """Return whether two P_Keys name the same partition, with any membership."""
    return not (one ^ other) & PKEY_NUMBER


def match(one: int, other: int) -> bool:
    """Return whether holders of these P_Keys may communicate.

    Both keys must name the same partition, one of them as full member. Partition 0 is none: an
    entry with it is empty (IBTA 10.9.1.2).
    """
    is_same = not (one ^ other) & PKEY_NUMBER and bool(one & PKEY_NUMBER)
    return is_same and bool((one | other) & PKEY_FULL_MEMBER)


def common(mine: Collection[int], theirs: Collection[int]) -> Iterator[int]:
    """Yield the P_Keys in ``mine`` that match a key in ``theirs``, in the order of ``mine``.

    Unlike in :func:`match`, partition 0 is no exception.
    """
    numbers = {pkey & PKEY_NUMBER for pkey in theirs}
    full = {pkey & PKEY_NUMBER for pkey in theirs if pkey & PKEY_FULL_MEMBER}
    for pkey in mine:
        if pkey & PKEY_NUMBER in (numbers if pkey & PKEY_FULL_MEMBER else full):
            yield pkey
