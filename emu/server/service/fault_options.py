"""A server's options for faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.faults.plan import Plan


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """The plan of a run, and the path of its record."""

    plan: Plan | None = None
    record: Path | None = None
    devices: tuple[str, ...] = ()
    """Specifications of the functions, as given by the user."""
    run: Mapping[str, object] = field(default_factory=dict)
    """Entries of the record about the guest."""
