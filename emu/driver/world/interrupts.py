"""Interrupts recorded in a list. Implements :class:`emu.device.ports.Interrupts`."""

from __future__ import annotations


class IrqList:
    """MSI-X vectors: ``fired`` lists those that fired, the oldest first."""

    def __init__(self) -> None:
        self.fired: list[int] = []
        self._latched: list[int] = []
        self._permitted = True

    def trigger(self, vector: int) -> None:
        """Append the vector to ``fired``, or latch it while bus mastering is off."""
        (self.fired if self._permitted else self._latched).append(vector)

    def pending(self, vector: int) -> bool:
        """Return whether the vector is pending."""
        return vector in self._latched

    def clear_pending(self) -> None:
        """Clear all pending vectors."""
        self._latched.clear()

    def permit(self, allowed: bool) -> None:
        """Set whether bus mastering is on.

        Turning it on appends the latched vectors to ``fired``.
        """
        self._permitted = allowed
        if allowed:
            self.fired += self._latched
            self._latched.clear()
