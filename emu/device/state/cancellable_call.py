"""A call that somebody else will make, and that its owner can take back.

Who waits for room on a wire hands in what to call. A wire does not know when the waiting one stops,
and it may be another process that makes the room, or never does. So the owner takes the call back:
what the wire still holds then refers to nothing.
"""

from __future__ import annotations

from collections.abc import Callable


class CancellableCall:
    """Calls ``call`` once, unless it is cancelled before; implements :class:`ports.Timer`."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    @property
    def is_pending(self) -> bool:
        """Whether the call is still to be made."""
        return self._call is not None

    def cancel(self) -> None:
        """Do not call."""
        self._call = None
