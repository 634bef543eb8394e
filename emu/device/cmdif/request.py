"""A command as read from its slot (PRM "Command queue entry")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layouts.cmd import cmd_layout


class CommandRequest:
    """One delivered command in a slot: its input, and the buffers of its output."""

    __slots__ = ("address", "data", "entry", "in_blocks", "out", "out_blocks", "slot")

    def __init__(
        self,
        slot: int,
        address: int,
        entry: cmd_layout,
        data: bytearray,
        out: bytearray,
        in_blocks: list[int],
        out_blocks: list[int],
    ) -> None:
        """Store the fields; ``address`` is the address of the slot's entry."""
        self.slot = slot
        self.address = address
        self.entry = entry
        self.data = data
        self.out = out
        self.in_blocks = in_blocks
        self.out_blocks = out_blocks

    @property
    def opcode(self) -> int:
        """Opcode of the command, known or not."""
        return int.from_bytes(self.data[:2], "big")

    @property
    def uid(self) -> int:
        """User context for which the driver sends the command."""
        return int.from_bytes(self.data[2:4], "big")

    @property
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")
