"""A server's faults, before there are any: the code for them is loaded when they are wanted.

Reading and checking plans takes a tenth of a second to load, which most servers never need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emu.function.function import Function

if TYPE_CHECKING:
    from emu.service.fault_session import FaultSession


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """The plan of a run, and where its record goes."""

    plan: Path | None = None
    record: Path | None = None
    devices: tuple[str, ...] = ()
    """The functions, as they were asked for."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """What the record shall say of the guest."""


class Faults:
    """The session of a server's functions, made when it is first wanted."""

    def __init__(self, functions: Sequence[Function], options: FaultOptions) -> None:
        """Raises UserError for a plan that is none, and OSError when there can be no record."""
        self._functions = functions
        self._options = options
        self._session: FaultSession | None = None
        if options.plan is not None or options.record is not None:
            self.wanted()

    def wanted(self) -> FaultSession:
        """The session."""
        if self._session is None:
            from emu.service.fault_session import FaultSession

            self._session = FaultSession(self._functions, self._options)
        return self._session

    def listing(self) -> list[dict[str, Any]]:
        """The rules of now."""
        return self._session.listing() if self._session is not None else []

    def close(self) -> None:
        """Take all rules away and close the record."""
        if self._session is not None:
            self._session.close()
