"""The pytest plugin: guests with emulated functions, and fault injection, for driver tests.

::

    def test_driver_survives_a_lost_interrupt(mlx5_guest, mlx5_faults):
        mlx5_faults.add(point="irq", action="drop", times=1)
        mlx5_guest.run("./my-test").check()

``mlx5_guest`` is a running :class:`emu.guests.Guest`, whose commands begin in the directory where
pytest was started. The guest mounts it read-only; ``share`` names another directory, and
``--mlx5-no-share``, or ``share=None``, shares none. Tests with the same options share it; a new
one is booted if a test left it unusable. The marker ``mlx5(...)`` gives a test other options: those
of :class:`emu.guests.GuestOptions`, or keys of lab files, such as ``share="DIR:rw"``. With
``fresh=True`` the test has its own guest. ``mlx5_faults`` loads rules and plans, and removes them
when the test ends. ``mlx5_leaks`` repeats the same work and checks for objects that each repetition
leaves in the device::

    def test_nothing_stays(mlx5_guest, mlx5_leaks):
        mlx5_leaks.check(lambda: mlx5_guest.run("./my-test").check())

The marker ``mlx5_chaos("@verbs", only=["link-*"])`` runs a test once for each failure of a set, in
a guest of its own with two functions of one network; ``mlx5_failure`` is the failure::

    @pytest.mark.mlx5_chaos("@verbs")
    def test_ends(mlx5_guest, mlx5_failure):
        assert mlx5_guest.run("my-test", timeout=60).status in (0, 1), mlx5_failure.about

Events are counted from the fixture on. A test that passes before its failure struck is skipped.

A test fails if the guest's kernel logs a WARNING or worse during it (``--mlx5-fail-on``). The first
test of a guest includes its boot. The marker ``mlx5_allow("WARNING in mlx5_*")`` allows findings by
patterns of their titles, or all findings without a pattern. The report of a failed test shows the
guest's findings, the faults that fired, the last lines of log and trace of the test's body, and the
paths of the complete files. Of a trace with failures, these are shown before other events.
``--mlx5-full`` shows all whole lines since the test began. A guest's command ends after
``--mlx5-timeout`` seconds, unless it has its own ``timeout``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING
from weakref import WeakSet

import pytest

from emu.host.printable import printable
from emu.instruments.testing.booting import boot_line
from emu.instruments.testing.command_line import add_options, check_command_line
from emu.instruments.testing.guest_options import options_of
from emu.instruments.testing.handles import Faults, Leaks
from emu.instruments.testing.marks import (
    chaos_mistake,
    check_allowed,
    failing_findings,
    failure_of,
    parametrize_failures,
)
from emu.instruments.testing.reports import add_console, end_at_the_test
from emu.instruments.testing.watched import Watched

if TYPE_CHECKING:
    from emu.guests import Guest, GuestPool
    from emu.instruments.testing.chaos_mark import MarkedFailure

_POOL: pytest.StashKey[GuestPool] = pytest.StashKey()
_SEEN: pytest.StashKey[WeakSet[Guest]] = pytest.StashKey()
_WATCHED = pytest.StashKey[Watched]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options to pytest's command line."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, declare the markers, and register the TAP writer if requested.

    Raises UsageError for an invalid option or a TAP file that cannot be written. Workers of xdist
    write no TAP; their parent process does.
    """
    check_command_line(config)
    path = config.getoption("--mlx5-tap")
    if path is not None and not hasattr(config, "workerinput"):
        from emu.guests.conformance.collected import TapFile

        config.pluginmanager.register(TapFile(path), "mlx5-tap")
    config.addinivalue_line(
        "markers", "mlx5(fresh=False, **options): options of the test's guest (GuestOptions)"
    )
    config.addinivalue_line(
        "markers",
        "mlx5_allow(*titles): findings in the guest's log that do not fail the test, by patterns of"
        " their titles; all, without any",
    )
    config.addinivalue_line(
        "markers",
        "mlx5_chaos(*sets, only=(), link=None, seed=0, repeat=1): run the test for each failure of"
        " sets (@verbs, or files); mlx5_failure is the failure",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Shut down every guest at the end of the run."""
    if _POOL in config.stash:
        config.stash[_POOL].close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test that uses ``mlx5_guest`` by the suites of --mlx5-suite, if any."""
    suites = metafunc.config.getoption("--mlx5-suite")
    if suites and "mlx5_guest" in metafunc.fixturenames:
        metafunc.parametrize("mlx5_suite", suites, indirect=True)
    if "mlx5_failure" in metafunc.fixturenames:
        parametrize_failures(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose marker ``mlx5_chaos`` is invalid, by file and line, before a guest boots.

    Also a test that has only one of the marker and the fixture ``mlx5_failure``.
    """
    if why := chaos_mistake(item):
        path, line, _name = item.location
        where = path if line is None else f"{path}:{line + 1}"
        raise pytest.fail.Exception(f"{where}: {why}", pytrace=False)


@pytest.fixture
def mlx5_suite(request: pytest.FixtureRequest) -> str | None:
    """Return the Debian suite of the test's guest; None for the default one."""
    return getattr(request, "param", None)


@pytest.fixture
def mlx5_guest(
    request: pytest.FixtureRequest, mlx5_suite: str | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guest]:
    """Yield a guest whose driver has probed its functions; see the plugin's documentation.

    Tests with the same options share a guest, which is booted again if it has ended. A ``fresh``
    guest is stopped after the test.
    """
    from emu.guests import Guest, GuestPool

    check_allowed(request.node)
    failure = failure_of(request.node)
    devices = None if failure is None else failure.devices
    base = tmp_path_factory.getbasetemp()
    options, is_fresh = options_of(request.node, devices, mlx5_suite, base)
    with contextlib.ExitStack() as stack:
        with boot_line(request.config, options.suite) as line:
            on_wait = None if line is None else line.waiting
            if is_fresh:
                guest = stack.enter_context(Guest(options, progress=line, on_wait=on_wait))
            else:
                pool = request.config.stash.setdefault(_POOL, GuestPool())
                guest = pool.get(options, progress=line, on_wait=on_wait)
        guest.command_timeout = request.config.getoption("--mlx5-timeout") or None
        seen = request.config.stash.setdefault(_SEEN, WeakSet())
        request.node.stash[_WATCHED] = Watched(guest, is_new=guest not in seen)
        seen.add(guest)
        yield guest


@pytest.fixture
def mlx5_faults(request: pytest.FixtureRequest, mlx5_guest: Guest) -> Iterator[Faults]:
    """Yield the faults of the test's guest; all rules are removed when the test ends.

    Rules of a plan in the guest's options are removed too. Rules and their counts are kept for the
    report.
    """
    with Faults(mlx5_guest.control_socket, request.node.stash[_WATCHED]) as faults:
        yield faults
        faults.clear()


@pytest.fixture
def mlx5_failure(request: pytest.FixtureRequest, mlx5_guest: Guest) -> Iterator[MarkedFailure]:
    """Yield the failure of a test with ``mlx5_chaos``; its plan is loaded, and removed at the end.

    Rules are kept for the report of a failed test.
    """
    from emu.server.control.client import ControlError

    failure: MarkedFailure = request.param
    with Faults(mlx5_guest.control_socket, request.node.stash[_WATCHED]) as faults:
        failure.load(faults)
        yield failure
        with contextlib.suppress(ControlError):  # the guest may have ended
            faults.clear()


@pytest.fixture
def mlx5_leaks(mlx5_guest: Guest) -> Iterator[Leaks]:
    """Yield a check for objects that every repetition of a work leaves in the device.

    The check runs only when the test calls it.
    """
    from emu.server.control.client import Client

    with Client(mlx5_guest.control_socket) as control:
        yield Leaks(control)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a passed test if its guest's kernel logged findings during it (``--mlx5-fail-on``).

    A test that failed by itself keeps its failure. CommandTimeoutError gets a note about
    --mlx5-timeout.
    """
    from emu.guests import CommandTimeoutError

    watched = item.stash.get(_WATCHED, None)
    if watched is not None:
        watched.begin_body()
    try:
        result = yield
    except CommandTimeoutError as error:
        error.add_note("To allow more time: --mlx5-timeout, or timeout= of this command.")
        raise
    if watched is not None:
        failing = failing_findings(item, watched)
        if failing:
            lines = [f"{one.kind}: {one.title}" for one in failing]
            lines += [printable(f"  {line}") for line in failing[0].lines]
            pytest.fail("\n".join(["the guest's kernel:", *lines]), pytrace=False)
    failure = failure_of(item)
    if failure is not None and not failure.has_struck:
        pytest.skip(f"the test ended before {failure.name} struck")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add sections with the guest's findings, logs, trace and faults to a failed test's report.

    Only failures of the call phase get them; a failed boot gets the console's last lines. The
    traceback ends at the test's own line, unless --full-trace.
    """
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        end_at_the_test(call.excinfo.value)
    report = yield
    watched = item.stash.get(_WATCHED, None)
    if watched is not None and report.when == "call" and report.failed:
        given = getattr(item, "funcargs", {})
        fixture = given.get("mlx5_faults") or getattr(given.get("mlx5_failure"), "control", None)
        if isinstance(fixture, Faults):
            with contextlib.suppress(Exception):
                fixture.note()
        for name, text in watched.sections(is_full=item.config.getoption("--mlx5-full")):
            if text:
                report.sections.append((f"mlx5 {name}", printable(text)))
    elif call.excinfo is not None and report.when == "setup":
        add_console(report, call.excinfo.value)
    return report
