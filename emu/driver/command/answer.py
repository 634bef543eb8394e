"""Results of commands, and the errors of a driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from layouts.enums.cmd import Status


class DriverError(AssertionError):
    """Raised when the device does something after which a driver cannot continue."""


class DriverCommandError(DriverError):
    """Raised when a command that must succeed fails."""


def expect(holds: object, otherwise: str) -> None:
    """Raise DriverError with the text ``otherwise`` unless ``holds``."""
    if not holds:
        raise DriverError(otherwise)


@dataclass
class Answer:
    """Finished command; the fields of its output's layout are attributes."""

    delivery: int
    """Delivery status of the command queue entry; 0 is OK."""
    raw: bytes
    """Complete output, in the requested length."""
    out: Any
    """Output as a view of its layout."""

    @property
    def status(self) -> Status:
        """Status of the command: the reason of the refusal, or OK."""
        return Status(self.raw[0])

    @property
    def syndrome(self) -> int:
        """Syndrome that ``mlx5emu explain`` decodes; 0 after success."""
        return int.from_bytes(self.raw[4:8], "big")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)
