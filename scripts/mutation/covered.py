"""Tests of each line, and the duration of each test, from one run of all tests with contexts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from coverage import CoverageData

TIERS = ("tests/unit", "tests/device")


class Times:
    """Plugin of pytest that records the duration of each test, and the tests that did not pass."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        for nodeid in self.failed:
            del self.seconds[nodeid]
        self.file.write_text(json.dumps(self.seconds))


class Covered:
    """Results of that run in a directory."""

    def __init__(self, where: Path, files: Iterable[str]) -> None:
        self.where = where
        self._files = {file: _digest(file) for file in files}

    def take(self) -> None:
        """Run all tests, each tier in a process of its own."""
        self.where.mkdir(exist_ok=True)
        folders = sorted({str(Path(file).parent) for file in self._files})
        runs = []
        for tier in TIERS:
            name = tier.replace("/", ".")
            environment = os.environ | {"COVERAGE_FILE": str(self.where / f"coverage.{name}")}
            own = [sys.executable, __file__, str(self.where / f"{name}.json"), tier]
            own += [f"--cov={folder}" for folder in folders]
            runs.append(subprocess.Popen(own, env=environment))
        for run in runs:
            if run.wait() > 1:  # 1: some tests have failed; they are not used
                raise SystemExit("the tests could not be run")
        (self.where / "sources.json").write_text(json.dumps(self._files))

    def is_current(self) -> bool:
        """Return whether the sources are those of the recorded run."""
        stored = self.where / "sources.json"
        return stored.exists() and self._files.items() <= json.loads(stored.read_text()).items()

    def read(
        self, wanted: Iterable[tuple[str, int]]
    ) -> tuple[dict[tuple[str, int], set[str]], dict[str, float], dict[str, Counter[str]]]:
        """Return the tests of some lines of files, and the seconds of each test.

        Returns also, for each of these files, the number of its lines that the tests of each module
        run.
        """
        lines: dict[tuple[str, int], set[str]] = {line: set() for line in wanted}
        seconds: dict[str, float] = {}
        ran: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for tier in TIERS:
            name = tier.replace("/", ".")
            seconds |= json.loads((self.where / f"{name}.json").read_text())
            data = CoverageData(str(self.where / f"coverage.{name}"))
            data.read()
            for file in {file for file, _ in lines}:
                for number, contexts in data.contexts_by_lineno(str(Path(file).resolve())).items():
                    tests = {context.rpartition("|")[0] for context in contexts}
                    for module in {module_of(test) for test in tests}:
                        ran[file][module].add(number)
                    if (file, number) in lines:
                        lines[file, number] |= tests
        counts = {
            file: Counter({module: len(numbers) for module, numbers in modules.items()})
            for file, modules in ran.items()
        }
        return {line: tests & seconds.keys() for line, tests in lines.items()}, seconds, counts


def module_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


if __name__ == "__main__":
    from forks import pytest_main

    times, *arguments = sys.argv[1:]
    options = ["--cov-context=test", "--cov-report="]
    raise SystemExit(pytest_main([*arguments, *options], Times(Path(times))))
