"""Native XDP on mlx5e, and raw packets of verbs: programs that write frames themselves."""

from __future__ import annotations

import re

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie")]

DEVICES = ("connectx6dx", "connectx6dx-vf")
HERE, THERE = "10.0.1.1", "10.0.1.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE) + f"ping -c 1 -W 20 {THERE}"
DOWN = "ip netns del peer"
BENCH = f"""
xdp-bench {{mode}} eth0 -m native -i 1 > /tmp/bench 2>&1 &
until ip link show eth0 | grep -q "prog/xdp"; do sleep 0.2; done
{IN_PEER}ping -c 3 -W 1 -i 0.3 {HERE} || echo "no answer"
kill -INT $!
wait || :
ethtool -S eth0
"""
RAW = f"""
here=$(cat /sys/class/net/eth0/address)
there=$({IN_PEER}cat /sys/class/net/eth1/address)
raw_ethernet_bw --server -d mlx5_0 -B $here -E $there -s 256 -n 200 -F > /tmp/server 2>&1 &
sleep 5
raw_ethernet_bw --client -d mlx5_1 -B $there -E $here -s 256 -n 200 -F
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up."""
    options = GuestOptions(suite=suite, devices=DEVICES, packages=("xdp-tools",))
    with prepared(lab, options, UP, DOWN) as guest, no_complaints(guest):
        yield guest


@pytest.mark.parametrize(("mode", "counter"), [("drop", "rx_xdp_drop"), ("tx", "rx_xdp_tx_xmit")])
def test_native_program(guest, mode, counter):
    """Frames are dropped, or sent back by the channel's XDP send queue; then all is as before."""
    out = run(guest, BENCH.format(mode=mode))
    assert "no answer" in out
    assert int(re.search(rf"^ *{counter}: (\d+)$", out, re.M).group(1)) >= 3
    run(guest, f"ping -c 1 -W 20 {THERE}")


def test_raw_packets(guest):
    """perftest's raw Ethernet queue pairs between two functions."""
    assert re.search(r"^ *256 +200 ", run(guest, RAW), re.M)
