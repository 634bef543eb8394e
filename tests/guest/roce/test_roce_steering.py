"""What the driver does with flow tables of RoCE packets, and RoCE turned off and on."""

from itertools import pairwise

import pytest
from helpers.guest.guests import FEW_KEYS, run
from helpers.guest.kernel_log import KernelLog
from helpers.guest.roce_guests import GID_OF_IPV4, ONE, SOFT_GID_OF_IPV4, SOFT_ROCE, UP
from helpers.guest.traffic_tools import converse

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

LINK = "mlx5_0/1"
CONGESTION_EXPERIENCED = 3
PINGPONG = f"ibv_rc_pingpong -g {GID_OF_IPV4} -n 50 -c"
SOFT_PINGPONG = f"ibv_rc_pingpong -g {SOFT_GID_OF_IPV4} -n 50 -c"
RELOAD = """set -e
function=$(basename $(readlink /sys/class/infiniband/mlx5_0/device))
devlink dev param set pci/$function name enable_roce value {value} cmode driverinit
devlink dev reload pci/$function
for _ in $(seq 100); do
    [ -d /sys/class/infiniband/mlx5_0/device/net/eth0 ] && break
    sleep 0.1
done
"""
GID_TYPE = "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1"


@pytest.fixture
def guest(lab, suite):
    guest = lab.get(
        GuestOptions(
            suite=suite, devices=("connectx6dx",), memory_mib=1024, kernel_arguments=FEW_KEYS
        )
    )
    run(guest, UP.format(address=ONE, nic="eth0").replace(" add ", " replace "))
    return guest


def counters(guest):
    """Optional counters that are on, by name."""
    words = run(guest, f"rdma statistic show link {LINK}").split()
    return {name: int(value) for name, value in pairwise(words) if value.isdigit()}


def test_optional_counters(guest):
    """Packets that congestion has marked are counted by tables of RDMA_RX, and all of them are not.

    Linux 7.2 counts packets and bytes of both directions as well. Each counter has a table of its
    own, and its entry allows what it counts, which ends the packet's way (fs.c:
    mlx5_ib_fs_add_op_fc): the tables of congestion come first, so the later ones count the rest.
    """
    supported = run(guest, f"rdma statistic mode supported link {LINK}")
    if "cc_rx_ce_pkts" not in supported:
        pytest.skip("this kernel has no optional counters")
    names = ["cc_rx_ce_pkts", "cc_rx_cnp_pkts", "cc_tx_cnp_pkts"]
    for more in ("rdma_tx_packets", "rdma_tx_bytes", "rdma_rx_packets", "rdma_rx_bytes"):
        if more in supported:
            names.append(more)
    chosen = ",".join(names)
    run(guest, f"rdma statistic set link {LINK} optional-counters {chosen}")
    try:
        converse(guest, guest, PINGPONG, ONE)
        before = counters(guest)
        assert before["cc_rx_ce_pkts"] == 0
        if "rdma_rx_packets" in names:
            assert before["rdma_rx_packets"] >= 100
            assert before["rdma_rx_packets"] == before["rdma_tx_packets"]
            assert before["rdma_rx_bytes"] == before["rdma_tx_bytes"]
        marked = f"ib_write_bw -F -x {GID_OF_IPV4} -s 1024 -n 20 --tclass={CONGESTION_EXPERIENCED}"
        converse(guest, guest, marked, ONE)
        after = counters(guest)
        assert after["cc_rx_ce_pkts"] >= 20
        if "rdma_rx_packets" in names:
            assert after["rdma_tx_bytes"] - before["rdma_tx_bytes"] >= 20 * 1024
            received = after["rdma_rx_packets"] + after["cc_rx_ce_pkts"]
            assert received == after["rdma_tx_packets"]
            assert after["cc_rx_cnp_pkts"] == after["cc_tx_cnp_pkts"]
    finally:
        run(guest, f"rdma statistic unset link {LINK} optional-counters")
    converse(guest, guest, PINGPONG, ONE)


def test_roce_off_and_on(guest):
    """Off, the interface stays and Soft-RoCE has its packets; on, everything is as before."""
    log = KernelLog(guest)
    converse(guest, guest, PINGPONG, ONE)
    run(guest, RELOAD.format(value="false"))
    run(guest, UP.format(address=ONE, nic="eth0"))
    assert guest.run(f"cat {GID_TYPE}").status
    assert guest.run(f"{PINGPONG} -d mlx5_0").status
    run(guest, SOFT_ROCE.format(nic="eth0"))
    converse(guest, guest, SOFT_PINGPONG, ONE, server_device="rxe0", client_device="rxe0")
    run(guest, "rdma link delete rxe0")
    run(guest, RELOAD.format(value="true"))
    run(guest, UP.format(address=ONE, nic="eth0"))
    assert run(guest, f"cat {GID_TYPE}").strip() == "RoCE v2"
    converse(guest, guest, PINGPONG, ONE)
    assert log.complaints() == []
