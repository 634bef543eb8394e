"""The conditions of capabilities: parts of capability groups, by generation and kind of
function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from emu.device.models.model import Capabilities
from layouts.enums.caps import CapType, PortType


class Generation(IntEnum):
    """Chip generations, in the order of their release.

    ConnectX-6 Lx and BlueField-2 belong to the generation of ConnectX-6 Dx, BlueField-3 to that of
    ConnectX-7.
    """

    CONNECTX4 = 1
    CONNECTX5 = 2
    CONNECTX6 = 3
    CONNECTX6DX = 4
    CONNECTX7 = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKind:
    """The properties that conditions test."""

    generation: Generation
    link: PortType
    is_vf: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Fields of a group, and the condition for them; without a condition all functions have
    them.
    """

    group: CapType
    fields: Capabilities
    since: Generation = Generation.CONNECTX4
    until: Generation = Generation.CONNECTX7
    """Last generation with these fields."""
    link: PortType | None = None
    is_vf: bool | None = None
    """True for virtual functions only, False for physical ones only; None for both."""

    def is_of(self, kind: ModelKind) -> bool:
        """Return whether a kind of function has these fields: it meets all conditions."""
        return (
            self.since <= kind.generation <= self.until
            and self.link in (None, kind.link)
            and self.is_vf in (None, kind.is_vf)
        )


def assembled(parts: Iterable[Part], kind: ModelKind) -> Mapping[CapType, Capabilities]:
    """Return every capability group of a kind of function, from the parts whose conditions are met.

    Of several parts with a field the last one counts. A group without a matching part is omitted.
    """
    groups: dict[CapType, dict[str, object]] = {}
    for part in parts:
        if part.is_of(kind):
            groups.setdefault(part.group, {}).update(part.fields)
    return {group: MappingProxyType(fields) for group, fields in groups.items()}
