"""RDMA to oneself, in the statistics of the interface: it is the virtual port's alone."""

from __future__ import annotations

import re

import pytest
from helpers.guest.guests import no_complaints, prepared, run

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

UP = "ip addr add 10.0.7.1/24 dev eth0; ip link set eth0 up"
MESSAGES = 40
PINGPONG = f"""
set -e
index=$(cd /sys/class/infiniband/mlx5_0/ports/1/gids
    grep -l 0000:0000:0000:0000:0000:ffff:0a00:0701 * | tail -1)
ibv_rc_pingpong -g $index -n {MESSAGES} > /tmp/server &
for _ in $(seq 100); do
    ss -Hltn sport = :18515 | grep -q . && break
    sleep 0.2
done
ibv_rc_pingpong -g $index -n {MESSAGES} 10.0.7.1
wait
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = GuestOptions(suite=suite, devices=("connectx6dx",))
    with prepared(lab, options, UP, "ip addr del 10.0.7.1/24 dev eth0") as guest:
        yield guest


def statistics(guest):
    return {
        name: int(value)
        for name, value in re.findall(r"(\w+): (\d+)", run(guest, "ethtool -S eth0"))
    }


def test_rdma_to_oneself(guest, linux):
    with no_complaints(guest):
        before = statistics(guest)
        run(guest, PINGPONG)
        after = statistics(guest)
    grown = {name: value - before[name] for name, value in after.items()}
    rdma = grown["tx_vport_rdma_unicast_packets"]
    assert grown["rx_vport_rdma_unicast_packets"] == rdma >= 4 * MESSAGES
    if linux != "6.1":
        assert grown["vport_loopback_packets"] == rdma
    others = sum(
        grown[f"tx_vport_{cast}_packets"] for cast in ("unicast", "multicast", "broadcast")
    )
    assert grown["tx_packets_phy"] <= others
