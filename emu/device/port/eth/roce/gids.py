"""The GID table of an Ethernet port: GIDs with MAC address, VLAN and RoCE version.

Source: PRM "SET_ROCE_ADDRESS"; mlx5_ifc.h: roce_addr_layout; IBTA annexes A16 and A17.4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final

from layouts.enums.roce import RoceVersion

GID_BYTES: Final = 16
MAC_BYTES: Final = 6
NO_GID: Final = bytes(GID_BYTES)
NO_MAC: Final = bytes(MAC_BYTES)


def text(gid: bytes) -> str:
    """Return a GID in its usual notation (standard in Python 3.13)."""
    mapped = IPv6Address(gid).ipv4_mapped
    return f"::ffff:{mapped}" if mapped is not None else str(IPv6Address(gid))


Place = tuple[bytes, int | None, bytes, int]
"""MAC address, VLAN, GID and RoCE version."""


@dataclass(frozen=True, slots=True)
class GidEntry:
    """An entry of the table; a ``gid`` of zeros marks an empty one."""

    gid: bytes = NO_GID
    mac: bytes = NO_MAC
    vlan: int | None = None
    """VLAN number of the interface that has the address; None without a VLAN."""
    l3_type: int = 0
    """roce_addr_layout.roce_l3_type."""
    version: int = RoceVersion.VERSION_1
    """roce_addr_layout.roce_version; the driver does not clear it in an emptied entry."""
    number: int = field(init=False)
    """MAC address and GID as one number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", int.from_bytes(self.mac + self.gid, "big"))

    def __str__(self) -> str:
        return text(self.gid)

    @property
    def place(self) -> Place:
        """The addresses and version of a frame for the entry."""
        return self.mac, self.vlan, self.gid, self.version

    @property
    def is_empty(self) -> bool:
        """Whether the entry is unused."""
        return self.gid == NO_GID


EMPTY: Final = GidEntry()


class GidTable:
    """The entries by index. ``changes`` grows with each change, for users that cache entries."""

    __slots__ = ("_entries", "_places", "changes")

    def __init__(self, size: int) -> None:
        self._entries = [EMPTY] * size
        self._places: frozenset[Place] = frozenset()
        self.changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[GidEntry]:
        return iter(self._entries)

    def __getitem__(self, index: int) -> GidEntry:
        """Return the entry at an index; an empty one beyond the table's end."""
        return self._entries[index] if 0 <= index < len(self._entries) else EMPTY

    def put(self, index: int, entry: GidEntry) -> None:
        """Replace an entry and count the change. Raises IndexError beyond the table's end."""
        self._entries[index] = entry
        self._changed()

    def clear(self) -> None:
        """Empty the whole table."""
        self._entries = [EMPTY] * len(self._entries)
        self._changed()

    def _changed(self) -> None:
        self._places = frozenset(entry.place for entry in self._entries if not entry.is_empty)
        self.changes += 1

    def has(self, mac: bytes, vlan: int | None, gid: bytes, version: int) -> bool:
        """Return whether a used entry has exactly these addresses and this RoCE version."""
        return (mac, vlan, gid, version) in self._places

    def has_gid(self, gid: bytes) -> bool:
        """Return whether the port has a GID, on any VLAN and in any version."""
        return any(own == gid for _, _, own, _ in self._places)

    @property
    def macs(self) -> frozenset[bytes]:
        """The MAC addresses of all entries."""
        return frozenset(mac for mac, *_ in self._places)
