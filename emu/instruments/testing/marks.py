"""Markers of a test: the failure of ``mlx5_chaos``, findings of ``mlx5_allow``, mistakes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from emu.host.user_error import UserError
from emu.instruments.testing.watched import Watched

if TYPE_CHECKING:
    from emu.instruments.outcome import Finding
    from emu.instruments.testing.chaos_mark import MarkedFailure

_NO_PARAMETERS = SimpleNamespace(params={})


def parametrize_failures(metafunc: pytest.Metafunc) -> None:
    """Make a test for each failure of the closest marker; keep the test of an invalid one as it is.

    The invalid test fails at its setup (:func:`pytest_runtest_setup`); the file's others run.
    """
    from emu.instruments.testing.chaos_mark import failures_of

    mark = metafunc.definition.get_closest_marker("mlx5_chaos")
    try:
        found = [] if mark is None else failures_of(mark)
    except (OSError, UserError):
        return
    if found:
        names = [name for name, _ in found]
        metafunc.parametrize("mlx5_failure", [one for _, one in found], indirect=True, ids=names)


def chaos_mistake(item: Any) -> str:
    """Return why a test's marker ``mlx5_chaos`` is invalid, or misses its fixture; else empty."""
    mark = item.get_closest_marker("mlx5_chaos")
    if "mlx5_failure" not in getattr(item, "fixturenames", ()):
        return "" if mark is None else "mark.mlx5_chaos needs the fixture mlx5_failure"
    if mark is None:
        return "mlx5_failure needs mark.mlx5_chaos"
    if failure_of(item) is not None:
        return ""
    from emu.instruments.testing.chaos_mark import failures_of

    try:
        failures_of(mark)
    except (OSError, UserError) as error:
        return f"mark.mlx5_chaos: {error}"
    return ""


def failure_of(item: Any) -> MarkedFailure | None:
    """Return the failure of a test with ``mlx5_chaos``; None for other tests."""
    found: MarkedFailure | None = getattr(item, "callspec", _NO_PARAMETERS).params.get(
        "mlx5_failure"
    )
    return found


def check_allowed(item: Any) -> None:
    """Fail a test whose marker ``mlx5_allow`` has an argument that is no pattern of titles."""
    for mark in item.iter_markers("mlx5_allow"):
        if mark.kwargs or not all(isinstance(pattern, str) for pattern in mark.args):
            why = "mark.mlx5_allow takes patterns of titles, such as 'WARNING in mlx5_*'"
            raise pytest.fail.Exception(why, pytrace=False)


def failing_findings(item: pytest.Item, watched: Watched) -> list[Finding]:
    """Return the findings since the test began that are severe enough and not allowed."""
    from emu.instruments.outcome import FailOn, failures

    fail_on = FailOn(item.config.getoption("--mlx5-fail-on"))
    marks = list(item.iter_markers("mlx5_allow"))
    if fail_on is FailOn.NEVER or any(not mark.args for mark in marks):
        return []
    allowed = [pattern for mark in marks for pattern in mark.args]
    failing = failures(watched.findings(), fail_on, is_emulated=watched.guest.is_emulated)
    return [one for one in failing if not any(fnmatchcase(one.title, each) for each in allowed)]
