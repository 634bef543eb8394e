"""Which capabilities a function has: parts of capability groups, each with its condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from emu.device.models.model import Capabilities
from layouts.enums import CapType, PortType


class Generation(IntEnum):
    """Chips, in the order in which they came.

    ConnectX-6 Lx and BlueField-2 are of the generation of ConnectX-6 Dx, BlueField-3 is of that of
    ConnectX-7.
    """

    CONNECTX4 = 1
    CONNECTX5 = 2
    CONNECTX6 = 3
    CONNECTX6DX = 4
    CONNECTX7 = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKind:
    """What conditions are about."""

    generation: Generation
    link: PortType
    is_vf: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Fields of a group, and which functions have them; without a condition all do."""

    group: CapType
    fields: Capabilities
    since: Generation = Generation.CONNECTX4
    until: Generation = Generation.CONNECTX7
    """The last generation that has them."""
    link: PortType | None = None
    is_vf: bool | None = None
    """Whether it is for virtual functions, or for physical ones; None for both."""

    def is_of(self, kind: ModelKind) -> bool:
        """Whether a kind of function has it."""
        return (
            self.since <= kind.generation <= self.until
            and self.link in (None, kind.link)
            and self.is_vf in (None, kind.is_vf)
        )


def assembled(parts: Iterable[Part], kind: ModelKind) -> Mapping[CapType, Capabilities]:
    """Every group that a kind of function has; of several parts with a field the last one counts.

    A group of which it has no part is not there.
    """
    groups: dict[CapType, dict[str, object]] = {}
    for part in parts:
        if part.is_of(kind):
            groups.setdefault(part.group, {}).update(part.fields)
    return {group: MappingProxyType(fields) for group, fields in groups.items()}
