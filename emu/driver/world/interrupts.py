"""Interrupts in a test's hand."""

from __future__ import annotations


class IrqList:
    """Interrupts as a list of the vectors that fired."""

    def __init__(self):
        self.fired = []
        self._latched = []
        self._permitted = True

    def trigger(self, vector):
        (self.fired if self._permitted else self._latched).append(vector)

    def pending(self, vector):
        return vector in self._latched

    def clear_pending(self):
        self._latched.clear()

    def permit(self, allowed):
        self._permitted = allowed
        if allowed:
            self.fired += self._latched
            self._latched.clear()
