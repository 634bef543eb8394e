"""A command as the interface has read it from its slot (PRM "Command queue entry")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layouts.cmd import CmdLayout


class CommandRequest:
    """One command in a slot, as delivered: its input and where its output goes."""

    __slots__ = ("address", "data", "entry", "in_blocks", "out", "out_blocks", "slot")

    def __init__(
        self,
        slot: int,
        address: int,
        entry: CmdLayout,
        data: bytearray,
        out: bytearray,
        in_blocks: list[int],
        out_blocks: list[int],
    ) -> None:
        """``address`` is that of the slot's entry."""
        self.slot = slot
        self.address = address
        self.entry = entry
        self.data = data
        self.out = out
        self.in_blocks = in_blocks
        self.out_blocks = out_blocks

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
