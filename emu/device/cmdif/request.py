"""A command as read from its slot (PRM "Command queue entry")."""

from __future__ import annotations


class CommandRequest:
    """One delivered command in a slot: its input, and the buffers of its output."""

    __slots__ = ("address", "data", "entry", "in_blocks", "out", "out_blocks", "slot")

    def __init__(
        self,
        slot: int,
        address: int,
        entry: bytearray,
        data: bytearray,
        out: bytearray,
        in_blocks: list[int],
        out_blocks: list[int],
    ) -> None:
        """Store the fields; ``entry`` is a copy of the slot's entry, which is at ``address``."""
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
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")
