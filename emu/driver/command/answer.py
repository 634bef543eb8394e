"""What a command has come to, and the failure of one that must work."""

from __future__ import annotations

from dataclasses import dataclass

from layouts.enums import Status


@dataclass
class Answer:
    """A finished command: delivery status, output bytes and the output seen through its layout."""

    delivery: int
    raw: bytes
    out: object

    @property
    def status(self):
        return Status(self.raw[0])

    @property
    def syndrome(self):
        return int.from_bytes(self.raw[4:8], "big")

    def __getattr__(self, name):
        return getattr(self.out, name)


class CommandFailedError(AssertionError):
    """The driver's own way of failing when a command that must work does not."""
