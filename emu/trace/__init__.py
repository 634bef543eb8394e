"""What the device tells about itself while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.cmdif import Request
    from emu.errors import CmdError
    from emu.ports import Buffer
    from emu.registry import Command
    from layouts.enums import EventType


class Tracer(Protocol):
    """Where the device's trace points go. A device without one pays an attribute test for each."""

    def mmio(self, kind: str, offset: int, data: Buffer) -> None:
        """A BAR 0 access; ``kind`` is read or write."""

    def command(self, request: Request, command: Command | None, error: CmdError | None) -> None:
        """A command has run; ``command`` is None for an opcode that nobody answers."""

    def eqe(self, eqn: int, event: EventType, sub_type: int, data: Buffer) -> None:
        """An event queue entry was written."""

    def irq(self, vector: int, eqn: int) -> None:
        """An interrupt was raised for an event queue."""
