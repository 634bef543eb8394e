"""Guests for tests: booted when one is wanted, shared, replaced when a test breaks it."""

from __future__ import annotations

import contextlib
import re
from collections import Counter

import pytest
from helpers.guest import driver_coverage
from helpers.guest.switch_kernel import SUITE, switch_kernel

from emu.guests import Guest, GuestOptions, GuestPool, doctor
from emu.guests.kernel import binaries, choice
from emu.guests.options import DEFAULT_DEVICE

LONGEST = {
    "test_architecture_services": 300,
    "test_bond": 120, "test_chaos": 200, "test_architectures": 90, "test_rdma_core": 90,
    "test_ucx": 70, "test_switchdev": 60, "test_saved_boot": 60, "test_named_guests": 55,
    "test_dpdk": 50, "test_lifecycle": 35,
    "test_storage": 30, "test_examples_commands": 30, "test_libfabric": 30, "test_results": 30,
    "test_rates": 25, "test_dpdk_hairpin": 25, "test_coverage": 20, "test_real_cards": 20,
    "test_fault_plans": 30,
}  # fmt: skip
"""About how many seconds modules take that take long; of others, a test takes about a second."""
VERSIONS = {"bookworm": "6.1", "trixie": "6.12", "sid": "7.2"}
"""The kernels of the suites."""


def pytest_collection_modifyitems(items):
    """Modules that take long come first: no processor has one left when the others are done.

    scripts/test hands out whole modules (``--dist loadfile``) in this order.
    """
    counts = Counter(item.path for item in items)

    def seconds(item):
        return LONGEST.get(item.path.stem, counts[item.path])

    items.sort(key=lambda item: (-seconds(item), item.path))


@pytest.fixture(scope="package", autouse=True)
def driver_coverage_file(request):
    """With ``--driver-coverage``, what the driver's functions did goes there."""
    path = request.config.getoption("driver_coverage")
    with contextlib.ExitStack() as stack:
        if path is not None:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            kernel = request.config.getoption("kernel")
            stack.enter_context(driver_coverage.counting(path, kernel, patch))
        yield


@pytest.fixture(scope="package")
def pool():
    """The guests that tests share."""
    pool = GuestPool()
    yield pool
    pool.close()


@pytest.fixture(scope="module", autouse=True)
def no_guest_waits_for_long(pool):
    """Guests that a whole module has not asked for are stopped; who wants one again boots it."""
    yield
    pool.stop_unwanted()


@pytest.fixture(scope="package")
def lab(pool):
    """The pool of guests; skips where the lab cannot run."""
    missing = [check for check in doctor.examine() if check.state is doctor.State.BAD]
    if missing:
        pytest.skip("; ".join(f"{check.part}: {check.result}" for check in missing))
    return pool


@pytest.fixture
def guest(lab, suite):
    """A guest with one function, its driver loaded. Tests leave it as they found it."""
    return lab.get(GuestOptions(suite=suite, devices=(DEFAULT_DEVICE,)))


@pytest.fixture
def bare_guest(lab, suite):
    """A guest without any function."""
    return lab.get(GuestOptions(suite=suite, devices=()))


@pytest.fixture(scope="package")
def kernel(request, suite):
    """What ``--kernel`` chooses, as options of a guest; none without it."""
    word = request.config.getoption("kernel")
    if word is None:
        return {}
    chosen = choice.choose([word], suite)
    return {"kernel": chosen.kernel, "modules": chosen.modules}


@pytest.fixture(scope="package")
def with_sub_functions(kernel, suite):
    """What GuestOptions take for a kernel that has them: that of ``--kernel``, or the cache's."""
    if kernel:
        return {"suite": suite} | kernel
    if suite != SUITE:
        pytest.skip(f"no kernel with CONFIG_MLX5_SF for {suite}: --kernel names one")
    return switch_kernel()


@pytest.fixture
def linux(kernel, suite):
    """The version of the guest's kernel, such as 6.12."""
    if not kernel:
        return VERSIONS[suite]
    return ".".join(re.findall(r"\d+", binaries.release(kernel["kernel"]))[:2])


@pytest.fixture
def boot(lab, suite, kernel):
    """Boots a guest of the test's own options, stopped at the test's end."""
    with contextlib.ExitStack() as stack:

        def boot_one(**options):
            options = {"suite": suite, "devices": ()} | kernel | options
            return stack.enter_context(Guest(GuestOptions(**options)))

        yield boot_one
