"""The match criteria of a flow group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from layouts.steering.flow_match import fte_match_param

Key = tuple[int, ...]
"""The values of a group's fields, under the group's masks."""


class Matcher(Protocol):
    """The match criteria of a group (``emu.device.engine.eth.steering.criteria``)."""

    @property
    def masks(self) -> Mapping[str, int]:
        """Mask by field name; the values in an entry's key have this order."""

    @property
    def cost(self) -> int:
        """Cost of reading the fields from a packet, in outer fields."""

    @property
    def parts(self) -> frozenset[Any]:
        """The packet fields that decide the match."""

    def key_of(self, values: Mapping[str, int]) -> Key:
        """Return the key of an entry with these values."""

    def key_at(self, place: int) -> Key | None:
        """Return the key of the entry at position ``place`` of the group.

        None where the entry's values decide, as in all groups but those that split by hash.
        """

    def values_of(self, param: fte_match_param) -> Mapping[str, int]:
        """Return an entry's values from its fte_match_param view."""

    def read(self, headers: Any) -> Key | None:
        """Return the key of a packet; None if the packet lacks one of the fields."""
