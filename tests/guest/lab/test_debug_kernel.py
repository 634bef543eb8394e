"""A kernel that watches itself with KASAN, lockdep and the DMA API's debugging, and its reports.

``--linux TREE`` names its sources: rdma-core's tests and the plans of examples/faults run in it. A
tree that has a configuration is built as it is; the build of another is in the cache, with the
smallest configuration.
"""

from __future__ import annotations

import os

import pytest
from helpers.guest.built_kernels import linux_sources
from helpers.guest.fault_plans import PLANS, Bench, carry_out

from emu.guests import Guest, GuestOptions, cache
from emu.guests.conformance.suite import BROKEN, HUGE_PAGES, list_modules, prepare, run_module
from emu.guests.errors import GuestError
from emu.guests.kernel import kbuild
from emu.guests.kernel.choice import choose
from emu.instruments.outcome import Kind, findings
from emu.server.service.plan_files import read_plans

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(0)]

DEBUG = ("kasan", "lockdep", "dma-debug")
SUITE = "trixie"
SECONDS = 300.0
"""For one of rdma-core's tests."""
KNOWN = {
    "DMA-API: cacheline tracking EEXIST, overlapping mappings aren't supported in add_dma_entry",
}
"""A process may register a page as often as it likes; to kernel/dma/debug.c such mappings overlap.
"""
FOUND = {
    "command-completed-twice": {
        "KASAN: slab-use-after-free Read in cmd_ent_put",
        "refcount bug in cmd_ent_put",
    }
}
"""What plans bring up in Linux 6.12; see examples/findings."""
REPORTS = (Kind.KASAN, Kind.UBSAN, Kind.LOCKDEP, Kind.REFCOUNT, Kind.OOPS)


@pytest.fixture(scope="module")
def options(request):
    """Of guests with that kernel."""
    tree, where = linux_sources(request), None
    if not (tree / ".config").is_file():
        where = cache.subdir("kernels") / f"debug-{tree.name}"
        kbuild.configure(tree, DEBUG, where)
    built = kbuild.build(tree, where, len(os.sched_getaffinity(0)))
    chosen = choose([str(built)], SUITE)
    return {
        "suite": SUITE,
        "kernel": chosen.kernel,
        "modules": chosen.modules,
        "memory_mib": 3072,
        "boot_timeout": 900.0,
        "hang_timeout": 300.0,
    }


@pytest.fixture(scope="module")
def guest(options):
    with Guest(GuestOptions(**options, hugepages=HUGE_PAGES)) as one:
        prepare(one)
        yield one


@pytest.fixture(scope="module")
def bench(options):
    made = {}
    yield lambda model: made.setdefault(model, Bench(model=model, **options))
    for one in made.values():
        one.close()


def test_rdma_cores_tests_make_it_report_nothing(guest):
    failed = {}
    for module in list_modules(guest):
        run = run_module(guest, module, SECONDS, lambda *_: None)
        failed |= {test.test: test for test in run.tests if test.outcome in BROKEN}
    found = [one for one in findings(guest.dmesg()) if one.kind is not Kind.DRIVER]
    unknown = [one for one in found if one.title not in KNOWN]
    assert (unknown, failed) == ([], {})


@pytest.mark.parametrize("name", sorted(read_plans(PLANS)))
def test_faults_make_it_report_nothing_new(bench, name):
    """Warnings apart. That each plan does what it says is for a kernel that is faster."""
    plan = read_plans(PLANS)[name]
    one = bench(plan.expect.model)
    try:
        log = carry_out(plan, (PLANS / f"{name}.toml").read_text(), one).log
    except GuestError as error:
        log = (error.console or "").splitlines()
    found = {one.title for one in findings("\n".join(log)) if one.kind in REPORTS}
    assert plan.expect.panics or found == FOUND.get(name, set())
