"""DPDK's mlx5 driver on virtual functions: testpmd forwards from one adapter's to another's."""

from __future__ import annotations

import pytest
from helpers.guest.dpdk import dpdk_guest, forwarded
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
FORWARD = """
set -e
rm -f /tmp/in
mkfifo /tmp/in
stdbuf -oL dpdk-testpmd -l 0,1 --in-memory -a 01:00.1 -a 02:00.1 -- --forward-mode=io \
    < /tmp/in > /tmp/out 2>&1 &
pmd=$!
exec 3> /tmp/in
for _ in $(seq 300); do
    grep -q "Press enter to exit" /tmp/out && break
    sleep 0.2
done
ip netns exec end2 timeout 60 sh -c 'until ping -q -c 1 -W 1 10.0.0.3; do :; done'
ip netns exec end2 ping -q -c 50 -i 0.02 -s 1000 -W 5 10.0.0.3
echo >&3
wait $pmd || echo "testpmd: status $?"
cat /tmp/out
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    return dpdk_guest(lab, suite, DEVICES, ENABLE)


def test_forwarding(guest):
    """A trusted virtual function is promiscuous: frames for others pass testpmd, both ways."""
    said = guest.run(FORWARD, timeout=SECONDS).check().stdout
    assert "50 packets transmitted, 50 received" in said
    assert "testpmd: status" not in said
    counts = forwarded(said)
    assert (counts[0][0], counts[1][0]) == (counts[1][1], counts[0][1])
    assert min(counts[0] + counts[1]) >= 50
