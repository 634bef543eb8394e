"""rdma-core's own tests, as Debian's python3-pyverbs ships them: every one passes or may skip.

A skip needs a reason that is listed here; a test that hangs or crashes is a failure of its own.
"""

from __future__ import annotations

import re

import pytest
from helpers.guest.kernel_log import KernelLog

from emu.device.objects.memory.aes import HAS_AES
from emu.guests import GuestOptions
from emu.guests.conformance.suite import (
    BROKEN,
    HUGE_PAGES,
    SuiteOutcome,
    hand_over,
    list_modules,
    prepare,
    run_module,
)

pytestmark = pytest.mark.guest

SECONDS = 60.0
"""For one test; the slowest takes ten on a busy host."""

MAY_SKIP = (
    r"renderD128",  # DMA-BUF wants a graphics device
    r"All gid indices populated",  # as on every InfiniBand port
    r"CC.DMA.(BOUNCE|bounce)",  # no encrypted guest
    r"RoCE|Ethernet link layer",  # InfiniBand is the only link layer
    r"SRQ resize is not supported",  # by any mlx5 device
    r"Extended QP is not supported",  # atomic write, which mlx5_ib does not know
    r"additional access flags 258",  # flush, which mlx5_ib does not know
    r"Support CQE 128B (compression|padding)",
    r"ODP(v2)? is not supported",
    r"Mapping AH to QP is not supported",  # an address handle that a DCI keeps
    r"send_dbr_mode_no_dbr_ext",  # sends without doorbell records
)

LEAST = {
    "test_addr": 2, "test_atomic": 7, "test_buf": 19, "test_cq": 3, "test_cq_events": 2,
    "test_cqex": 5, "test_device": 12, "test_fork": 1, "test_mlx5_cq": 6, "test_mlx5_dc": 5,
    "test_mlx5_huge_page": 2,
    "test_mlx5_devx": 1, "test_mlx5_mkey": 11, "test_mlx5_pp": 1, "test_mlx5_query_port": 1,
    "test_mlx5_raw_wqe": 1,
    "test_mlx5_timestamp": 3, "test_mr": 8, "test_parent_domain": 6, "test_pd": 4, "test_qp": 21,
    "test_qpex": 19, "test_rdmacm": 10, "test_relaxed_ordering": 2, "test_shared_pd": 1,
    "test_srq": 2,
}  # fmt: skip
"""How many tests of a module have to pass on every suite."""


ETHERNET = "connectx6dx"
MIN_PASSED_ON_ETHERNET = {
    "test_flow": 5,
    "test_mlx5_dr": 14,
    "test_mlx5_flow": 3,
    "test_mlx5_sched": 2,
    "test_rss_traffic": 1,
}
"""The same for raw packets and their flows, on a function with an Ethernet port."""
MAY_SKIP_ON_ETHERNET = (
    r"DrTable creation failed|DrDomain sync failed",  # tables that the library writes itself
    r"Failed to create dr action packet reformat",  # by rdma-core 44, without them
    r"ROCE must be disabled|switchdev mode",
    r"flow meters are not offered|Reg C is not supported",
    r"Setting matcher layout failed",  # a match definer of the program's own
    r"RDMA flow tables are not offered",
    r"FDs file not found",  # mlx5_perm_ctrl_*: users who steer others' RDMA traffic (uctx_cap)
)


NEWEST = "connectx7,crypto=wrapped" if HAS_AES else "connectx7"
MIN_PASSED_ON_NEWEST = {
    "test_mlx5_crypto": 5 if HAS_AES else 0,
    "test_mlx5_dma_memcpy": 4,
    "test_mlx5_ooo_qp": 0,
    "test_mlx5_sched": 2,
}
"""The same for what came with ConnectX-7, with encryption."""
MAY_SKIP_ON_NEWEST = (
    r"DV QP OOO feature is not supported",  # by Linux up to 6.12
    r"does not support plaintext DEK",  # an adapter has one kind of keys or the other
    *(() if HAS_AES else (r"Crypto login details",)),
)


@pytest.fixture
def newest_guest(lab, suite):
    guest = lab.get(GuestOptions(suite=suite, devices=(NEWEST,), hugepages=HUGE_PAGES))
    prepare(guest)
    return guest


@pytest.fixture
def ethernet_guest(lab, suite):
    guest = lab.get(GuestOptions(suite=suite, devices=(ETHERNET,), hugepages=HUGE_PAGES))
    prepare(guest)
    return guest


@pytest.fixture
def guest(lab, suite):
    guest = lab.get(GuestOptions(suite=suite, hugepages=HUGE_PAGES))
    prepare(guest)
    return guest


def is_refusal(line):
    """A command that a test has made the device refuse, as the driver reports it."""
    return re.search(r"mlx5_cmd_out_err.* failed, status", line)


@pytest.mark.parametrize(
    "module",
    [pytest.param(one, marks=pytest.mark.slow) if one == "test_mlx5_dc" else one for one in LEAST],
)
def test_module(guest, module):
    check(guest, module, LEAST[module], MAY_SKIP)


@pytest.mark.parametrize("module", MIN_PASSED_ON_ETHERNET)
def test_ethernet_module(ethernet_guest, module):
    check(ethernet_guest, module, MIN_PASSED_ON_ETHERNET[module], MAY_SKIP_ON_ETHERNET)


@pytest.mark.parametrize("module", MIN_PASSED_ON_NEWEST)
def test_module_of_the_newest(newest_guest, module):
    check(newest_guest, module, MIN_PASSED_ON_NEWEST[module], MAY_SKIP_ON_NEWEST)


def check(guest, module, least, may_skip):
    """Run a module: nothing fails, all that is skipped may be, and enough passes."""
    if module not in list_modules(guest):
        pytest.skip("this suite's rdma-core does not have it yet")
    log = KernelLog(guest)
    run = run_module(guest, module, SECONDS, lambda *_: None)
    assert [test for test in run.tests if test.outcome in BROKEN] == []
    reasons = [reason for reason, _ in run.skip_reasons()]
    assert [reason for reason in reasons if not any(re.search(m, reason) for m in may_skip)] == []
    assert run.count(SuiteOutcome.PASSED) >= least
    assert [line for line in log.complaints() if not is_refusal(line)] == []


@pytest.mark.slow
def test_a_driver_in_user_space(boot, suite):
    """That of rdma-core's library takes a function by vfio, behind an IOMMU, without the kernel's.

    Which of the two tests are mistaken depends on the versions of rdma-core and scapy.
    """
    if suite == "bookworm":
        pytest.skip("one of them wants a port that is up later than its driver")
    guest = boot(devices=("connectx7", "connectx7"), iommu=True)
    prepare(guest)
    run = run_module(guest, "test_mlx5_vfio", SECONDS, lambda *_: None, hand_over(guest))
    assert run.count(*BROKEN) == 0
    assert all("scapy" in why or "twice" in why for why, _ in run.skip_reasons())
    assert len(run.tests) == 2
    if suite == "trixie":
        assert run.count(SuiteOutcome.PASSED) == 1
    assert guest.run("rdma link show mlx5_0/1", timeout=60).status == 0
