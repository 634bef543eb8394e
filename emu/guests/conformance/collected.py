"""The results of a pytest run as TAP, in the format of ``run`` and ``suite`` (``results.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.guests.conformance.results import Case, Verdict, tap
from emu.host.userfiles import why_not_writable, write_outfile


class TapFile:
    """A pytest plugin that writes ``path``. Raises UsageError when the path cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cases: dict[str, Case] = {}
        if why := why_not_writable(path):
            raise pytest.UsageError(f"--mlx5-tap {path}: {why}")
        try:
            self._write()
        except OSError as error:
            raise pytest.UsageError(f"--mlx5-tap {path}: {error.strerror}") from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one phase (setup, call, teardown) of a test; no file is written yet.

        A failed call is FAIL, a failed setup or teardown ERROR, a skipped or expected failure SKIP.
        A test that has FAIL keeps it; the durations of the phases are added.
        """
        group, _, name = report.nodeid.partition("::")
        known = self._cases.get(report.nodeid, Case(group, name, Verdict.PASS))
        seconds = known.seconds + report.duration
        verdict, detail = known.verdict, known.detail
        if report.failed and verdict is not Verdict.FAIL:
            verdict = Verdict.FAIL if report.when == "call" else Verdict.ERROR
            detail = report.longreprtext
        elif report.skipped:
            verdict, detail = Verdict.SKIP, _reason(report)
        self._cases[report.nodeid] = Case(group, name, verdict, detail, seconds)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file; on failure print the reason and set exit status INTERNAL_ERROR."""
        try:
            self._write()
        except OSError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line(f"--mlx5-tap {self._path}: {error.strerror}", red=True)

    def _write(self) -> None:
        write_outfile(self._path, tap(list(self._cases.values())))


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped, or that its failure was expected."""
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    where = report.longrepr
    return str(where[2]).removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)
