"""DPDK's mlx5 driver on virtual functions: testpmd forwards from one adapter's to another's."""

from __future__ import annotations

import pytest
from helpers.guest.dpdk import PING, dpdk_guest, forwarded, pmd_script
from helpers.guest.guests import SECONDS

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie")]

DEVICES = (
    "connectx6dx,vfs=1,segment=1", "connectx6dx,vfs=1,segment=2",
    "connectx6dx,segment=1", "connectx6dx,segment=2",
)  # fmt: skip
ENABLE = """
for slot in 1 2; do
    pf=/sys/bus/pci/devices/0000:0$slot:00.0
    name=$(ls $pf/net)
    ip link set $name up
    echo 1 > $pf/sriov_numvfs
    ip link set $name vf 0 trust on
    until ls $pf/virtfn0/infiniband/*; do sleep 0.1; done > /dev/null 2>&1
done
"""


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    return dpdk_guest(lab, suite, DEVICES, ENABLE, **kernel)


def test_forwarding(guest):
    """A trusted virtual function is promiscuous: frames for others pass testpmd, both ways."""
    script = pmd_script("--forward-mode=io", PING, ("01:00.1", "02:00.1"))
    said = guest.run(script, timeout=SECONDS).check().stdout
    assert "50 packets transmitted, 50 received" in said
    assert "testpmd: status" not in said
    counts = forwarded(said)
    assert (counts[0][0], counts[1][0]) == (counts[1][1], counts[0][1])
    assert min(counts[0] + counts[1]) >= 50
