"""A server's fault options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """The plan of a run, and where its record goes."""

    plan: Path | None = None
    record: Path | None = None
    devices: tuple[str, ...] = ()
    """The functions' specifications, as given by the user."""
    run: Mapping[str, object] = field(default_factory=dict)
    """What the record should contain about the guest."""
