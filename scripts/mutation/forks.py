"""Runs of the tests on mutants: pytest collects once, then each mutant has a fork with its code.

The sources are not written. Functions keep their identity and get other code, wherever they have
been imported to. Code that runs only at a module's import cannot be changed in this process.
"""

from __future__ import annotations

import ast
import gc
import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import HealthCheck, Phase, settings

_MEMORY = 6 << 30
_POLL = 0.02  # seconds
_PATIENCE = 60.0
"""Seconds without processor time after which a fork counts as waiting forever."""
_TIMES_AT = slice(11, 13)
"""Positions of utime and stime in proc(5)'s stat, behind the name."""
NOT_APPLIED = "(not applied) "
"""Text in place of the failed tests of a job without a result."""


@dataclass(slots=True)
class Job:
    """Module, and the tests that are run on it until one fails."""

    tests: Sequence[str]
    file: str = ""
    source: str = ""
    tree: ast.Module | None = None
    """Replacement of the source, in its state when the tests were collected."""
    seconds: float = 60
    """Limit of processor time in seconds, which does not depend on the load of the machine.

    A fork beyond it hangs.
    """
    stops: bool = True
    done: Callable[[list[str]], None] = lambda failed: None
    """Called with the tests that failed; a text in brackets is the end of the fork, not a test."""


@dataclass(slots=True)
class _Fork:
    job: Job
    pipe: int
    deadline: float
    used: int = 0
    """Processor time at the last poll."""
    failed: bytearray = field(default_factory=bytearray)


def pytest_main(arguments: Sequence[str], plugin: object) -> int:
    """Run pytest with random tests that are equal in each run and store nothing."""
    settings.register_profile(
        "mutation",
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already
    options += ["-o", "timeout=0"]  # they go by the clock
    return int(pytest.main([*options, *arguments], plugins=[plugin]))


class Forks:
    """Plugin of pytest that runs jobs instead of the tests it has collected."""

    def __init__(self, jobs: Callable[[list[str]], Iterator[Job | None]], *, at_once: int) -> None:
        """Run ``jobs``, called with the collected tests; it yields None while it waits for jobs."""
        self._jobs, self._at_once = jobs, at_once
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all jobs; no test is run in this process."""
        gc.unfreeze()  # what is frozen is not listed
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                self._functions[one.__code__.co_filename].append(one)
        gc.collect()
        gc.freeze()
        items = {item.nodeid: item for item in session.items}
        factory: pytest.TempPathFactory = vars(session.config)["_tmp_path_factory"]
        factory.getbasetemp()  # one for all forks
        running: dict[int, _Fork] = {}
        for job in self._jobs([*items]):
            if job is None:
                self._watch(running)
            else:
                self._start(job, [items[test] for test in job.tests], running)
            while len(running) == self._at_once:
                self._watch(running)
        while running:
            self._watch(running)
        return True

    def _start(self, job: Job, items: list[pytest.Item], running: dict[int, _Fork]) -> None:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            os.set_blocking(ours, False)
            running[pid] = _Fork(job, ours, time.monotonic() + _PATIENCE)
            return
        status = 1
        try:
            os.close(ours)
            _limit(job.seconds)
            if job.tree is not None:
                try:
                    self._replace(job.file, job.source, job.tree)
                except (LookupError, ValueError) as error:
                    os.write(theirs, f"{NOT_APPLIED}{error}\n".encode())
                    os._exit(0)
            _run(items, theirs, stops=job.stops)
            status = 0
        finally:
            os._exit(status)

    def _replace(self, file: str, source: str, tree: ast.Module) -> None:
        name = str(Path(file).resolve())
        old = [*_codes(compile(source, name, "exec", dont_inherit=True))]
        new = [*_codes(compile(tree, name, "exec", dont_inherit=True))]
        same = dict(zip(old, new))
        named = {_name(was): becomes for was, becomes in zip(old, new)}
        is_changed = False
        for function in self._functions[name]:
            was = function.__code__
            # pytest rewrites the asserts of a project that has a plugin for it.
            function.__code__ = same.get(was) or named.get(_name(was), was)
            is_changed |= function.__code__ not in same
        if not is_changed:
            raise LookupError(f"no function of {name} has changed")

    def _watch(self, running: dict[int, _Fork]) -> None:
        time.sleep(_POLL)
        for pid, fork in [*running.items()]:
            while some := _read(fork.pipe):
                fork.failed += some
            if time.monotonic() > fork.deadline:
                _look(pid, fork)
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            while some := _read(fork.pipe):
                fork.failed += some
            os.close(fork.pipe)
            del running[pid]
            failed = fork.failed.decode().splitlines()
            if status:
                failed.append(f"(ended with status {status:#x})")
            fork.job.done(failed)


def _run(items: list[pytest.Item], pipe: int, *, stops: bool) -> None:
    class Told:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                os.write(pipe, f"{report.nodeid}\n".encode())
                if stops:
                    os._exit(0)

    if not items:
        return
    plugins = items[0].config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Told())
    for item, after in zip(items, [*items[1:], None]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def _limit(seconds: float) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _look(pid: int, fork: _Fork) -> None:
    """End a fork that has not progressed, or has used up its processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    used = sum(map(int, fields[_TIMES_AT]))
    if used == fork.used:
        os.kill(pid, signal.SIGKILL)
    fork.used, fork.deadline = used, time.monotonic() + _PATIENCE


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 65536)
    except BlockingIOError:
        return b""


def _name(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield all code in a module, in the order of its text: the same for a module and its
    mutants.
    """
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
