"""The vocabulary of a plan, from the declarations of the fault points: points, actions,
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from emu.device.faults import registry
from emu.device.faults.registry import DeclaredPoint, Parameter

import_module("emu.device.faults.points")  # its modules declare the points


@dataclass(frozen=True, slots=True)
class Action:
    """An action, over all points where it is possible."""

    name: str
    uses: Mapping[str, registry.PointAction]
    """Its declarations, by the point's name."""

    @property
    def needs(self) -> frozenset[str]:
        """Parameters that are required."""
        return frozenset(one.name for use in self.uses.values() for one in use.needs)

    @property
    def takes(self) -> frozenset[str]:
        """Parameters with a default, at any of its points.

        A parameter without an effect at a rule's point is accepted there.
        """
        return frozenset(one.name for use in self.uses.values() for one in use.takes) - self.needs

    @property
    def is_effect(self) -> bool:
        """Whether it is about the device as a whole."""
        return self.name in registry.EFFECTS


def _actions() -> dict[str, Action]:
    """Return actions by name, in the order of their first declaration.

    Actions on the whole device come last, with the points where they are possible.
    """
    uses: dict[str, dict[str, registry.PointAction]] = {}
    for point in registry.POINTS.values():
        for name, use in point.actions.items():
            uses.setdefault(name, {})[point.name] = use
    for name, effect in registry.EFFECTS.items():
        where = registry.POINTS if effect.points is None else sorted(effect.points)
        uses[name] = dict.fromkeys(where, effect.action)
    return {name: Action(name, MappingProxyType(at)) for name, at in uses.items()}


POINTS: Mapping[str, DeclaredPoint] = MappingProxyType(registry.POINTS)
ACTIONS: Mapping[str, Action] = MappingProxyType(_actions())
PARAMETERS: Mapping[str, Parameter] = MappingProxyType(registry.PARAMETERS)
