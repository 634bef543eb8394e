"""Description of an access register (PRM "Access registers"); :mod:`~firmware_cmds.regs.reg` uses
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from emu.device.cmdif.scope import resolvers
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

PartT = TypeVar("PartT")
RegT = TypeVar("RegT", bound=Prm)

Access = Callable[[PartT, RegT], None]
"""Fills (read) or applies (write) a view of the register of a function, or of a part of it."""


class AccessRegister(Generic[PartT]):
    """Describes a register: its layout and its functions for reading and writing; None refuses the
    access.
    """

    __slots__ = ("gate", "is_open", "is_shared", "layout", "part", "read", "scope", "write")

    def __init__(
        self,
        layout: type[RegT],
        read: Access[PartT, RegT] | None = None,
        write: Access[PartT, RegT] | None = None,
        *,
        gate: str = "",
        is_open: bool = False,
        is_shared: bool = False,
    ) -> None:
        self.layout: type[Prm] = layout
        self.read: Access[PartT, Any] | None = read
        self.write: Access[PartT, Any] | None = write
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
        self.part: Callable[[Hca], Any] = lambda hca: hca
        """Returns what ``read`` and ``write`` get of that function; see :func:`of_part`."""


def of_part(
    part: Callable[[Hca], PartT], registers: Mapping[int, AccessRegister[PartT]]
) -> Mapping[int, AccessRegister[Any]]:
    """Have the registers access only a part of their function; return them."""
    for register in registers.values():
        register.part = part
    return registers
