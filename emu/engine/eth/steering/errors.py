"""Why a change of the flow tables is refused. A refused change has no effect."""

from __future__ import annotations


class SteeringError(ValueError):
    """The change makes no sense, or there is no room for it; the text says why."""


class SteeringBusyError(SteeringError):
    """The object to be destroyed is still in use."""
