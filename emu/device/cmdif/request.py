"""A command as the interface has read it from its slot (PRM "Command queue entry")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layouts.cmd import CmdLayout


@dataclass(slots=True)
class CommandRequest:
    """One command in a slot, as delivered: its input and where its output goes."""

    slot: int
    address: int
    """Address of the slot's entry."""
    entry: CmdLayout
    data: bytearray
    out: bytearray
    in_blocks: list[int]
    out_blocks: list[int]

    @property
    def opcode(self) -> int:
        """The command's opcode, known or not."""
        return int.from_bytes(self.data[:2], "big")

    @property
    def uid(self) -> int:
        """The user context that the driver sends the command for."""
        return int.from_bytes(self.data[2:4], "big")

    @property
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")
