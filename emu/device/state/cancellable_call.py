"""A call that another party will make, and that its owner can cancel.

A sender that waits for capacity on a wire registers a callback. The wire does not know when that
sender stops, and another process may provide the capacity, or never does. The owner therefore
cancels the call, and the callback that the wire still holds refers to nothing.
"""

from __future__ import annotations

from collections.abc import Callable


class CancellableCall:
    """Calls ``call`` once, unless cancelled before; implements :class:`ports.Timer`."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    @property
    def is_pending(self) -> bool:
        """Whether the call is pending."""
        return self._call is not None

    def cancel(self) -> None:
        """Cancel the call and drop the reference to ``call``; no effect after the call or twice."""
        self._call = None
