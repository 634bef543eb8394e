"""examples/ethernet: checked traffic while its interface changes, pause frames, kernel tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.built_kernels import linux_sources
from helpers.guest.kernel_log import server_complaints

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "ethernet"
DEVICES = ("connectx6dx", "connectx6dx-vf")
MORE_SECONDS = 240
"""For the beginning, and for the last change."""

PACKAGES = ("python3-yaml", "socat", "jq", "netsniff-ng", "gcc", "libc6-dev")
TESTS = "ping.py queues.py stats.py"
"""Those of the kernel's tests that every kernel with them passes, and soon."""


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_traffic_while_everything_changes(boot, request):
    seconds = request.config.getoption("--ethernet-seconds")
    guest = boot(devices=DEVICES, share=EXAMPLES)
    command = f"python3 /mnt/share/stress.py --seconds {seconds}"
    said = guest.run(command, timeout=seconds + MORE_SECONDS)
    assert said.status == 0, said.stdout + said.stderr
    assert "no byte wrong, no queue stuck, nothing in the log" in said.stdout
    assert server_complaints(guest) == []


def test_pause_frames(boot):
    """Lost without them, and none with them; the port has the patience that the driver sets."""
    guest = boot(devices=("connectx6dx", "connectx6dx"), share=EXAMPLES)
    said = guest.run("python3 /mnt/share/pause.py", timeout=MORE_SECONDS).check().stdout
    found = re.findall(r"^pause frames (on|off): rx_out_of_buffer (\d+)", said, re.M)
    lost = {state: int(count) for state, count in found}
    assert lost["off"] > 0
    assert lost["on"] == 0
    tunable = "pfc-prevention-tout"
    guest.run(f"ethtool --set-tunable eth0 {tunable} 100").check()
    assert f"{tunable}: 100" in guest.run(f"ethtool --get-tunable eth0 {tunable}").check().stdout
    assert guest.run(f"ethtool --set-tunable eth0 {tunable} 9000").status
    assert "tx_pause_storm_error_events: 0" in guest.run("ethtool -S eth0").check().stdout
    assert server_complaints(guest) == []


@pytest.mark.suite("trixie")
def test_the_kernels_own_tests(boot, request):
    sources = linux_sources(request)
    guest = boot(devices=DEVICES, packages=PACKAGES, memory_mib=3072, share=sources)
    program = (EXAMPLES / "driver-tests.py").read_bytes()
    said = guest.run(f"python3 - {TESTS}", stdin=program, timeout=3 * MORE_SECONDS)
    assert said.status == 0, said.stdout + said.stderr
    assert "queues.py: 2 passed" in said.stdout
