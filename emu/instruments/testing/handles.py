"""The objects of fixtures: faults and leaks of a test's guest, over its control socket."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from emu.host.counted import counted
from emu.host.shipped import path_of
from emu.server.control.client import Client

if TYPE_CHECKING:
    from emu.instruments.testing.watched import Watched


class Faults(Client):
    """The faults of a test's guest: a control client that keeps fired rules for the report."""

    def __init__(self, path: str | os.PathLike[str], watched: Watched) -> None:
        super().__init__(path)
        self._watched = watched

    def load(self, plan: str | os.PathLike[str]) -> int:
        """Replace all rules by those of a plan: a file, ``@NAME`` or its text; they start now.

        Return the number of rules. A str is the plan's text if it is empty or has ``=`` or ``[``.
        Raises OSError for a missing file, UserError for an unknown name. For a plan that starts
        before the driver loads, the test has to reload the driver. With the marker
        ``mlx5(faults=PATH)`` the plan starts at its own time.
        """
        word = os.fspath(plan)
        if isinstance(plan, str) and (not plan or any(mark in plan for mark in "=[\n")):
            return self.load_plan(plan)
        return self.load_plan(path_of("plan", word).read_text())

    def clear(self) -> None:
        """Remove all rules."""
        self.note()
        super().clear()

    def note(self) -> None:
        """Add the present rules with their counts to the report of a failed test, fired or not."""
        self._watched.fired += map(_rule_line, self.rules())


def _rule_line(rule: Mapping[str, Any]) -> str:
    """Return a rule of a server's answer in words: point, action, other keys, counts."""
    about = dict(rule["rule"])
    what = f"{about.pop('point')} {about.pop('action')}"
    keys = "".join(f" {name}={_toml(value)}" for name, value in about.items() if name != "name")
    met, fired = (sum(count[name] for count in rule["counts"]) for name in ("met", "fired"))
    return (
        f"{rule['name']}: {what}{keys}: fired {counted(fired, 'time')} at {counted(met, 'event')}"
    )


def _toml(value: object) -> str:
    """Return a value of a rule as its plan has it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items())
        return f"{{{inner}}}"
    return json.dumps(value)


class Leaks:
    """Checks that work leaves no objects in the device of a test's guest."""

    def __init__(self, control: Client) -> None:
        self._control = control

    def check(self, work: Callable[[], object], repeat: int = 2) -> None:
        """Run ``work`` once to fill the driver's caches, then ``repeat`` times.

        Objects are counted after each. Fail the test (pytest.fail) if the count of any kind grows
        in each of these. Raises ValueError for ``repeat`` < 2.
        """
        from emu.instruments.outcome import growing_kinds, settled

        if repeat < 2:
            raise ValueError(f"repeat = {repeat}: at least 2, to distinguish caches from leaks")
        counts = []
        for _ in range(repeat + 1):
            work()
            counts.append(settled(self._control))
        if leaks := growing_kinds(counts):
            pytest.fail("\n".join(f"{one.title}: {one.lines[0]}" for one in leaks), pytrace=False)
