"""What an access register is (PRM "Access registers"); :mod:`~firmware_cmds.regs.reg` answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emu.device.cmdif.scope import Resolver, resolvers
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

Access = Callable[["Hca", Any], None]
"""Fills (read) or takes over (write) a view of the register."""


@dataclass(frozen=True, slots=True)
class Register:
    """One register: its layout and what reading and writing do; None refuses."""

    layout: Prm
    read: Access | None = None
    write: Access | None = None
    gate: str = ""
    """The general capability without which the register is not there."""
    least: int = 0
    """Bytes of the shortest form that a driver sends, if that is not the whole layout."""
    is_open: bool = False
    """Data of any length follow the layout, as many as the output has room for."""
    scope: tuple[Resolver, ...] = field(init=False)
    """How the function is found whose register it is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", resolvers(self.layout))
