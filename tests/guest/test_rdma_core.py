"""rdma-core's own tests of devices and objects, as Debian's python3-pyverbs ships them.

Each module runs in a process of its own with a time limit. What they skip is listed with the
reason; a skip that is not listed is a failure, as is a test that does not run at all.
"""

from __future__ import annotations

import re

import pytest
from helpers.kernel_log import KernelLog

from emu.guest import GuestOptions

pytestmark = pytest.mark.guest

TESTS = "/usr/share/rdma-core-tests"
SECONDS = 120
RESULT = re.compile(r"\.\.\. (ok|skipped '(?P<why>.*)'|skipped \"(?P<other>.*)\"|FAIL|ERROR)$")

EXPECTED_SKIPS = (
    r"Device memory is not supported",  # MEMIC, which no model has
    r"renderD128 is not present",  # DMA-BUF wants a graphics device
    r"skip RoCE test|Ethernet link layer",  # InfiniBand is the only link layer
    r"SRQ resize is not supported",  # by any mlx5 device
    r"SRQ type .* not supported|XRQ",  # tag matching
)
"""Reasons for which a test may skip."""

MODULES = {"test_device": 14, "test_pd": 4, "test_addr": 2, "test_cq": 4, "test_cqex": 5,
           "test_srq": 2, "test_mr": 8, "test_parent_domain": 6, "test_shared_pd": 1}  # fmt: skip
"""How many tests have to pass, at least, on every suite."""


@pytest.fixture(scope="module")
def verbose_results(lab):
    """Not a fixture of guests: the results by suite and module, for the summary at the end."""
    return {}


@pytest.mark.parametrize("module", MODULES)
def test_module(lab, suite, module):
    guest = lab.get(GuestOptions(suite=suite, hugepages=64))
    log = KernelLog(guest)
    command = f"cd {TESTS} && exec timeout {SECONDS} python3 run_tests.py -v {module}"
    result = guest.run(f"{command} 2>&1", timeout=2 * SECONDS)
    assert result.status == 0, result.stdout[-4000:]
    results = [match for line in result.stdout.splitlines() if (match := RESULT.search(line))]
    reasons = {match["why"] or match["other"] for match in results} - {None}
    unexpected = [why for why in reasons if not any(re.search(e, why) for e in EXPECTED_SKIPS)]
    assert unexpected == []
    assert sum(match[1] == "ok" for match in results) >= MODULES[module]
    assert log.complaints() == []
