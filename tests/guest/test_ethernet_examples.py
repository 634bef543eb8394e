"""examples/ethernet: the kernel's own tests of network drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[2] / "examples" / "ethernet"
DEVICES = ("connectx6dx", "connectx6dx-vf")
SECONDS = 720
PACKAGES = ("python3-yaml", "socat", "jq", "netsniff-ng", "gcc", "libc6-dev")
TESTS = "ping.py queues.py stats.py"
"""Those of the kernel's tests that every kernel with them passes, and soon."""


@pytest.mark.timeout(0)
@pytest.mark.suite("trixie")
def test_the_kernels_own_tests(boot, request):
    sources = request.config.getoption("--linux")
    if sources is None:
        pytest.skip("--linux names no kernel source tree")
    guest = boot(devices=DEVICES, packages=PACKAGES, memory_mib=3072, share=sources)
    program = (EXAMPLES / "driver-tests.py").read_bytes()
    said = guest.run(f"python3 - {TESTS}", stdin=program, timeout=SECONDS)
    assert said.status == 0, said.stdout + said.stderr
    assert "queues.py: 2 passed" in said.stdout
