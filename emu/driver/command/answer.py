"""What a command has come to, and how a driver fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from layouts.enums import Status


class DriverError(AssertionError):
    """The device does what a driver cannot go on with."""


class DriverCommandError(DriverError):
    """A command that must work does not."""


def expect(holds: object, otherwise: str) -> None:
    """Go on if something holds. Raises DriverError with the text ``otherwise``."""
    if not holds:
        raise DriverError(otherwise)


@dataclass
class Answer:
    """A finished command; the fields of its output's layout are attributes."""

    delivery: int
    """Delivery status of the command queue entry; 0 is OK."""
    raw: bytes
    """The whole output, as long as it was asked for."""
    out: Any
    """The output seen through its layout."""

    @property
    def status(self) -> Status:
        """Why it was refused, or OK."""
        return Status(self.raw[0])

    @property
    def syndrome(self) -> int:
        """What ``mlx5emu explain`` tells about; 0 after success."""
        return int.from_bytes(self.raw[4:8], "big")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)
