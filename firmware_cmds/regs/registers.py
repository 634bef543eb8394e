"""What an access register is (PRM "Access registers"); :mod:`~firmware_cmds.regs.reg` answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from emu.device.cmdif.scope import resolvers
from layouts.codec import View
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

RegT = TypeVar("RegT", bound=View)

Access = Callable[["Hca", RegT], None]
"""Fills (read) or takes over (write) a view of the register."""


class Register:
    """One register: its layout and what reading and writing do; None refuses."""

    __slots__ = ("gate", "is_open", "layout", "read", "scope", "write")

    def __init__(
        self,
        layout: Prm[RegT],
        read: Access[RegT] | None = None,
        write: Access[RegT] | None = None,
        *,
        gate: str = "",
        is_open: bool = False,
    ) -> None:
        self.layout: Prm = layout
        self.read: Access[Any] | None = read
        self.write: Access[Any] | None = write
        self.gate = gate
        """The general capability without which the register is not there."""
        self.is_open = is_open
        """Data of any length follow the layout, as many as the output has room for."""
        self.scope = resolvers(layout)
        """How the function is found whose register it is."""
