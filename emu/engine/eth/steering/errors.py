"""Why a change of the flow tables is refused. A change that is refused has changed nothing."""

from __future__ import annotations


class SteeringError(ValueError):
    """The change makes no sense, or there is no room for it; the text says why."""


class SteeringBusyError(SteeringError):
    """What shall go is still in use."""
