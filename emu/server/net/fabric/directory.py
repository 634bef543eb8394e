"""The assignment of LIDs and GUIDs on a fabric."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from emu.device.port.ib.port import BASE_GUID, SM_LID
from emu.server.net.fabric.protocol import Identity

_GUID_STEP = 16


class TakenError(Exception):
    """A requested LID or GUID belongs to another function; the text says which."""


def assign(
    requested: Sequence[Identity], used: Iterable[Identity], avoid: Iterable[Identity] = ()
) -> list[Identity]:
    """Return a LID and a GUID for each function: the requested ones, else the first free ones.

    Ethernet functions get LID 0. Numbers in ``avoid`` are assigned only on request. Raises
    TakenError for a requested number that ``used`` or another request has.
    """
    holders = [*used]
    lids, guids = {one.lid for one in holders}, {one.guid for one in holders}
    for want in requested:
        _claim("LID", want.lid, lids)
        _claim("GUID", want.guid, guids)
    avoid = [*avoid]
    free_lids = _free(range(1, SM_LID), lids | {one.lid for one in avoid})
    free_guids = _free(range(BASE_GUID, 1 << 64, _GUID_STEP), guids | {one.guid for one in avoid})
    return [
        Identity(
            0 if want.is_ethernet else want.lid or next(free_lids),
            want.guid or next(free_guids),
            want.is_ethernet,
        )
        for want in requested
    ]


def _claim(kind: str, number: int, used: set[int]) -> None:
    """Add a requested number to ``used``. Raises TakenError for a used number other than 0."""
    if number and number in used:
        raise TakenError(f"{kind} {number:#x} belongs to another function of the fabric")
    used.add(number)


def _free(numbers: range, used: Collection[int]) -> Iterator[int]:
    return itertools.filterfalse(used.__contains__, numbers)
