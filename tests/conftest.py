"""Options and rules for every tier of tests."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

from emu.compiled.loading import SETTING
from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.machine import qemu
from emu.version import COMPILED, code

# Programs that tests start neither use nor make compiled code, unless all is to be compiled.
if os.environ.setdefault(SETTING, "0") == "1" and code() != COMPILED:
    raise pytest.UsageError(f"{SETTING}=1, but nothing is compiled: run scripts/setup compiled")

pytest.register_assert_rewrite("helpers")  # an assert in there shows its values, too

from helpers.random.examples import examples  # noqa: E402

# How long an example takes says more about the host than about the code.
settings.register_profile("mlx5emu", deadline=None, max_examples=examples(100))
settings.load_profile("mlx5emu")

# What is drawn on a terminal depends on these, which are whoever's that starts the tests.
for _name in ("TERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)

GUEST_TEST_TIMEOUT = 900  # seconds; the first one may build an image


class _Patch(pytest.MonkeyPatch):
    """Skips a test that puts something into the place of compiled code, which would not notice.

    Compiled code looks up neither functions nor constants when it uses them.
    """

    def setattr(self, target, name, *value, **options):
        """As ``MonkeyPatch.setattr``, with an object and a name, or a name with dots."""
        owner, replaced = target, name
        if not value:
            module, _, replaced = target.rpartition(".")
            owner = sys.modules.get(module)
        is_method = callable(getattr(type(owner), replaced, None))
        if _is_compiled(owner) or (is_method and _is_compiled(type(owner))):
            pytest.skip(f"compiled: it replaces {replaced}")
        super().setattr(target, name, *value, **options)


def _is_compiled(owner):
    """Whether it is a module that is compiled, or a class of one."""
    module = sys.modules.get(owner.__module__) if isinstance(owner, type) else owner
    return isinstance(module, ModuleType) and (getattr(module, "__file__", "") or "").endswith(
        ".so"
    )


@pytest.fixture
def monkeypatch():
    """pytest's own where the device is pure Python."""
    patch = _Patch() if code() == COMPILED else pytest.MonkeyPatch()
    yield patch
    patch.undo()


@pytest.fixture(scope="session")
def program():
    """A QEMU that takes functions over vfio-user."""
    found = qemu.find()
    if found is None:
        pytest.skip("no QEMU with vfio-user is installed or in the cache")
    return found


@pytest.fixture(autouse=True)
def no_internal_errors(caplog):
    """A traceback in the log is an exception that nobody expected: a bug of ours.

    A test that provokes one looks for it and clears the log.
    """
    yield
    for phase in ("setup", "call"):
        for record in caplog.get_records(phase):
            if record.levelno >= logging.ERROR:
                assert not record.exc_info, f"{record.getMessage()}: {record.exc_info[1]!r}"


def pytest_addoption(parser):
    parser.addoption(
        "--suite",
        dest="suites",
        action="append",
        choices=SUITES,
        help=f"Debian suite of the guests; may be repeated. Default: {DEFAULT_SUITE}.",
    )
    parser.addoption(
        "--kernel",
        help="The kernel of guests that tests boot for themselves, as mlx5emu run's: debian:7.3, a"
        " bzImage, or a build tree.",
    )
    parser.addoption(
        "--key-turns",
        type=int,
        default=3200,
        help="How many memory windows tests/guest/verbs/test_keys.py binds and invalidates; 100000"
        " for a long run.",
    )
    parser.addoption(
        "--paging-seconds",
        type=int,
        default=20,
        help="How long the stress of tests/guest/verbs/test_odp.py runs; 600 for a for a long run.",
    )
    parser.addoption(
        "--ethernet-seconds",
        type=int,
        default=20,
        help="How long the stress of Ethernet ports runs (ethernet/test_ethernet_examples.py);"
        " 600 for a for a long run.",
    )
    parser.addoption(
        "--linux",
        type=Path,
        help="A source tree of Linux 6.12, whose driver tests ethernet/test_ethernet_examples.py"
        " runs, and of which test_debug_kernel.py and test_kcov.py build kernels with KASAN, KCOV.",
    )
    parser.addoption(
        "--driver-coverage",
        type=Path,
        metavar="FILE",
        help="Add to this file how often the guest tests made each function of the driver run, as"
        " mlx5emu run --coverage does; tests that unload the driver fail. With --kernel, guests of"
        " tests that choose no kernel have that one.",
    )


def pytest_generate_tests(metafunc):
    """A test that takes ``suite`` runs once for each suite that was asked for and that it wants."""
    if "suite" not in metafunc.fixturenames or _chooses_suites(metafunc.definition):
        return
    asked = metafunc.config.getoption("suites") or [DEFAULT_SUITE]
    wanted = {suite for mark in metafunc.definition.iter_markers("suite") for suite in mark.args}
    unwanted = pytest.mark.skip(reason=f"only on {', '.join(sorted(wanted))}")
    suites = [
        suite if suite in wanted or not wanted else pytest.param(suite, marks=unwanted)
        for suite in asked
    ]
    metafunc.parametrize("suite", suites, scope="package")


def _chooses_suites(definition):
    """Whether a test lists its suites itself."""
    names = [mark.args[0] for mark in definition.iter_markers("parametrize")]
    return any("suite" in (name.split(",") if isinstance(name, str) else name) for name in names)


def pytest_collection_modifyitems(items):
    is_compiled = code() == COMPILED
    for item in items:
        # Compiled functions call each other without looking them up: a test cannot replace them.
        for mark in item.iter_markers("pure") if is_compiled else ():
            item.add_marker(pytest.mark.skip(reason=f"compiled: {mark.args[0]}"))
        if item.get_closest_marker("guest") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(GUEST_TEST_TIMEOUT))
