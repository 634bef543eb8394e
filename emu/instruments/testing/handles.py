"""The fixtures' objects: faults and leaks of a test's guest, by its control socket."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from emu.server.control.client import Client

if TYPE_CHECKING:
    from emu.instruments.testing.watched import Watched


class Faults(Client):
    """The faults of a test's guest, by its control socket: a client that notes them for reports."""

    def __init__(self, path: str | os.PathLike[str], watched: Watched) -> None:
        super().__init__(path)
        self._watched = watched

    def load(self, plan: str | os.PathLike[str]) -> int:
        """Replace all rules by those of a plan, a file or its text; they begin now.

        A plan that begins before the driver loads wants the test to load it again. By the marker
        ``mlx5(faults=PATH)`` a guest has a plan that begins when it says.
        """
        return self.load_plan(plan if isinstance(plan, str) else Path(plan).read_text())

    def clear(self) -> None:
        """Remove all rules."""
        self.note()
        super().clear()

    def note(self) -> None:
        """Keep what has fired for the report."""
        self._watched.fired += [
            f"{rule['name']}: {rule['rule']} {rule['counts']}" for rule in self.rules()
        ]


class Leaks:
    """Work that must not leave objects in the device of a test's guest."""

    def __init__(self, control: Client) -> None:
        self._control = control

    def check(self, turn: Callable[[], object], turns: int = 2) -> None:
        """Carry a turn out once, so that the driver's caches are warm, then ``turns`` times.

        Fails the test when each of these leaves objects of some kind.
        """
        from emu.instruments.outcome import left, settled

        if turns < 2:
            raise ValueError("one turn cannot tell a cache from a leak: 2 or more")
        counts = []
        for _ in range(turns + 1):
            turn()
            counts.append(settled(self._control))
        if leaks := left(counts):
            pytest.fail("\n".join(f"{one.title}: {one.lines[0]}" for one in leaks), pytrace=False)
