"""Description of an access register (PRM "Access registers"); :mod:`~firmware_cmds.regs.reg` uses
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from emu.device.cmdif.scope import resolvers
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

RegT = TypeVar("RegT", bound=Prm)

Access = Callable[["Hca", RegT], None]
"""Fills (read) or applies (write) a view of the register."""


class AccessRegister:
    """Describes a register: its layout and its functions for reading and writing; None refuses the
    access.
    """

    __slots__ = ("gate", "is_open", "is_shared", "layout", "read", "scope", "write")

    def __init__(
        self,
        layout: type[RegT],
        read: Access[RegT] | None = None,
        write: Access[RegT] | None = None,
        *,
        gate: str = "",
        is_open: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.layout: type[Prm] = layout
        self.read: Access[Any] | None = read
        self.write: Access[Any] | None = write
        self.gate = gate
        """General capability without which the register does not exist."""
        self.is_open = is_open
        """Whether data of any length follow the layout, up to the output's space."""
        self.is_shared = is_shared
        """Whether a write changes what all functions of the adapter share. A write of a function
        behind the manager's switch then has no effect.
        """
        self.scope = resolvers(layout)
        """Functions that resolve the function whose register is accessed."""
