"""The faults of a server; the code for them is loaded only when it is needed.

Loading the code that parses plans takes a tenth of a second, and most servers never need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from emu.device.function.function import Function
from emu.server.service.fault_options import FaultOptions
from emu.server.service.links import Cabling

if TYPE_CHECKING:
    from emu.device.faults.record import Fired
    from emu.server.service.fault_session import FaultSession


class Faults:
    """The fault session of a server's functions, created on first use."""

    def __init__(
        self, functions: Sequence[Function], options: FaultOptions, cabling: Cabling
    ) -> None:
        """Raises UserError for an invalid plan, and OSError when the record cannot be created."""
        self._functions = functions
        self._options = options
        self._cabling = cabling
        self._session: FaultSession | None = None
        self.on_fired: Callable[[Fired], None] | None = None
        """Told of each fault that fires, besides the record."""
        if options.plan is not None or options.record is not None:
            self.wanted()

    def wanted(self) -> FaultSession:
        """The session."""
        if self._session is None:
            from emu.server.service.fault_session import FaultSession

            self._session = FaultSession(self._functions, self._options, self._cabling, self._tell)
        return self._session

    def _tell(self, fired: Fired) -> None:
        if self.on_fired is not None:
            self.on_fired(fired)

    def listing(self) -> list[dict[str, Any]]:
        """The current rules."""
        return self._session.listing() if self._session is not None else []

    def links(self) -> list[dict[str, Any]]:
        """The links that are or were set."""
        return self._session.links() if self._session is not None else []

    @property
    def complaint(self) -> str:
        """What the record lacks at the end, if anything."""
        return self._session.complaint if self._session is not None else ""

    def close(self) -> None:
        """Take all rules away and close the record."""
        if self._session is not None:
            self._session.close()
