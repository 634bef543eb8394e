"""Interrupts in the caller's hand: a list. Implements :class:`emu.device.ports.Interrupts`."""

from __future__ import annotations


class IrqList:
    """``fired`` lists the MSI-X vectors that fired, the oldest first."""

    def __init__(self) -> None:
        self.fired: list[int] = []
        self._latched: list[int] = []
        self._permitted = True

    def trigger(self, vector: int) -> None:
        """Fire, or wait until interrupts are permitted."""
        (self.fired if self._permitted else self._latched).append(vector)

    def pending(self, vector: int) -> bool:
        """Whether the vector waits."""
        return vector in self._latched

    def clear_pending(self) -> None:
        """Forget those that wait."""
        self._latched.clear()

    def permit(self, allowed: bool) -> None:
        """Whether bus mastering is on: what waited fires when it is."""
        self._permitted = allowed
        if allowed:
            self.fired += self._latched
            self._latched.clear()
