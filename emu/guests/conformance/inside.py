"""The program inside the guest that runs one module of rdma-core's tests.

The host feeds it to the guest's interpreter on standard input. A supervisor runs the module in a
child process. If a test fails, crashes or hangs, only that one is lost: the rest run in a new
process. Standard output has events as JSON, one object per line: ``{"count": n}`` first, then for
each test its name, outcome, detail and seconds. Output of the tests is written to standard error.

Only the standard library is imported: the guest does not have this package.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import select
import signal
import sys
import time
import traceback
import types
import unittest
from collections.abc import Iterator
from typing import Any

PACKAGE = "tests"
IMPORT_SECONDS = 120.0
"""Time limit for the imports, which are slow on an emulated processor."""

REAP_TENTHS = 50
"""Time limit in tenths of a second for a killed process to end."""

LAST_WORDS = 4000
"""Number of characters of a traceback that are kept."""

Event = dict[str, Any]


class Reporter(unittest.TestResult):
    """Writes an event when a test starts and one when it ends."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self._out = out
        self._started = 0.0
        self._outcome = ""
        self._detail = ""

    def _say(self, **event: object) -> None:
        os.write(self._out, json.dumps(event).encode() + b"\n")

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802  # unittest's name
        """Write the test's name as an event before it runs, in case the test crashes."""
        super().startTest(test)
        self._started = time.monotonic()
        self._outcome, self._detail = "passed", ""
        self._say(start=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Write the test's end as an event; stop the run after a failed test or an error."""
        super().stopTest(test)
        seconds = round(time.monotonic() - self._started, 3)
        self._say(test=test.id(), outcome=self._outcome, detail=self._detail, seconds=seconds)
        # A failed test may leave its context and objects open, which could exhaust the device's:
        # the rest run in a new process.
        self.shouldStop = self._outcome in ("failed", "error")

    def _note(self, outcome: str, detail: str) -> None:
        # A failure overrides a skipped subtest; of several failures the first is kept.
        if self._outcome in ("passed", "skipped"):
            self._outcome, self._detail = outcome, detail[-LAST_WORDS:]

    def _fixture(self, test: Any, outcome: str, detail: str) -> None:
        """Write the outcome of a failed or skipped class or module fixture, whose tests do not run.

        Do nothing for an ordinary test, whose outcome :meth:`stopTest` writes.
        """
        if not isinstance(test, unittest.TestCase):
            self._say(test=test.id(), outcome=outcome, detail=detail[-LAST_WORDS:], seconds=0.0)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._fixture(test, "skipped", reason)
        self._note("skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._note("failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._fixture(test, "error", self.errors[-1][1])
        self._note("error", self.errors[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: Any, err: Any) -> None:  # noqa: N802
        """Record a failed subtest as the test's outcome; a passed one changes nothing."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._note("failed" if failed else "error", str(err[1]))

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._note("failed", "expected to fail, but passed")


def load(directory: str, module: str) -> list[unittest.TestCase]:
    """Return the module's tests in unittest's order; raise what its import raises.

    A stand-in package replaces the package's own ``__init__``, which would import every module. The
    suite's options are parsed from ``sys.argv``.
    """
    sys.path.insert(0, directory)
    package = types.ModuleType(PACKAGE)
    package.__path__ = [directory]
    sys.modules[PACKAGE] = package
    importlib.import_module("args_parser").parser.parse_args()
    # Two of the suite's modules import each other; only this order works.
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(f"{PACKAGE}.utils")
    loaded = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module(f"{PACKAGE}.{module}")
    )
    return list(_flat(loaded))


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flat(item)
        else:
            yield item


def run_tests(out: int, directory: str, module: str, last: str, words: list[str]) -> None:
    """Run the module's tests in this child process and write their events as JSON lines to ``out``.

    Tests up to and including ``last`` are skipped. The run stops after a failed test, so that the
    rest run in a new process; the event ``finished`` marks a run to the end. A failed import is one
    event of outcome ``error``. ``words`` are the suite's own options.
    """
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # unbuffered: no output is lost when a test crashes
    sys.argv[1:] = words
    # Some tests start processes that run a method of the test. A method cannot be pickled, so they
    # need fork, which is not the default since Python 3.14.
    multiprocessing.set_start_method("fork")
    try:
        tests = load(directory, module)
    except Exception:
        name, why = f"{PACKAGE}.{module}", traceback.format_exc()
        event = {"test": name, "outcome": "error", "detail": why, "seconds": 0.0}
        os.write(out, json.dumps(event).encode() + b"\n")
        return
    os.write(out, json.dumps({"count": len(tests)}).encode() + b"\n")
    names = [test.id() for test in tests]
    start = names.index(last) + 1 if last in names else 0
    reporter = Reporter(out)
    unittest.TestSuite(tests[start:]).run(reporter)
    if not reporter.shouldStop:
        os.write(out, json.dumps({"finished": True}).encode() + b"\n")


class Supervisor:
    """Runs a module, starting new processes until every test has been run."""

    def __init__(self, directory: str, module: str, timeout: float, words: list[str]) -> None:
        """Prepare a run; ``words`` are for the suite's own parser of options."""
        self._directory = directory
        self._words = words
        self._module = module
        self._timeout = timeout
        self._is_counted = False
        self._last = ""
        """The last test that started."""
        self._is_running = False
        self._finished = False

    def run(self) -> Iterator[Event]:
        """Yield the events for the host, starting child processes until all tests have been run.

        Stop as well when a child ends without having started a further test.
        """
        while not self._finished:
            before = self._last
            yield from self._process()
            if self._last == before:
                return

    def _process(self) -> Iterator[Event]:
        """Run one child; yield its events, and the outcome of the test during which it ended.

        A test without an event for ``timeout`` seconds is ``timeout``, another one ``crashed``.
        Processes that the tests left behind are killed.
        """
        reader, pid = self._start()
        self._is_running = False
        since = time.monotonic()
        late = ""
        for event in self._events(reader):
            if event is not None:
                since = time.monotonic()
                yield from self._follow(event)
                if self._finished:
                    break
                continue
            if _has_ended(pid):  # a process left behind by it keeps the pipe open
                break
            limit = self._timeout if self._is_running else IMPORT_SECONDS
            if time.monotonic() - since >= limit:
                late = f"no end after {limit:g} s"
                break
        os.close(reader)
        end = self._reap(pid, forced=bool(late))
        with contextlib.suppress(ProcessLookupError):  # processes that the tests left behind
            os.killpg(pid, signal.SIGKILL)
        if late or self._is_running or end:
            yield {
                "test": self._last if self._is_running else f"{PACKAGE}.{self._module}",
                "outcome": "timeout" if late else "crashed",
                "detail": ", ".join(filter(None, (late, end))),
                "seconds": round(time.monotonic() - since, 3),
            }

    def _follow(self, event: Event) -> Iterator[Event]:
        """Record a child's event; yield the first count and every test's end, for the host."""
        if "count" in event:
            if not self._is_counted:
                yield event
            self._is_counted = True
        elif "finished" in event:
            self._finished = True
        elif "start" in event:
            self._last, self._is_running = event["start"], True
        else:
            self._is_running = False
            yield event

    def _start(self) -> tuple[int, int]:
        """Fork the child for the remaining tests; return our end of its pipe, and its process ID.

        The child leads a process group and never returns from here.
        """
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return reader, pid
        status = 1
        try:
            os.setpgid(0, 0)
            os.close(reader)
            run_tests(writer, self._directory, self._module, self._last, self._words)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    @staticmethod
    def _events(reader: int) -> Iterator[Event | None]:
        """Yield events until the child's end of the pipe closes; None for each silent second."""
        pending = b""
        while True:
            if not select.select([reader], [], [], 1.0)[0]:
                yield None
                continue
            data = os.read(reader, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            yield from map(json.loads, lines)

    @staticmethod
    def _reap(pid: int, *, forced: bool) -> str:
        """Wait up to 5 s for the child and describe its end; ``forced`` kills its group first.

        Return an empty text for status 0 or a forced end, else the exit status or signal. A child
        that hangs in the kernel is abandoned.
        """
        if forced:
            os.killpg(pid, signal.SIGKILL)
        for _ in range(REAP_TENTHS):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                if forced or not code:
                    return ""
                return f"killed by signal {-code}" if code < 0 else f"exit {code}"
            time.sleep(0.1)
        return "and cannot be killed: hung in the kernel"


def _has_ended(pid: int) -> bool:
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, options) is not None


def main() -> None:
    """Run the module that the arguments name; write its events to standard output as JSON lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--pci-dev", default="")
    options = parser.parse_args()
    words = ["--pci-dev", options.pci_dev] if options.pci_dev else []
    for event in Supervisor(options.directory, options.module, options.timeout, words).run():
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
