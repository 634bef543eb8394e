"""Links that delay and lose packets, under stock drivers and programs that verify their data."""

from __future__ import annotations

from math import isfinite

import pytest
from helpers.guest.guests import FEW_KEYS, run
from helpers.guest.kernel_log import KernelLog, server_complaints
from helpers.guest.roce_guests import GID_OF_IPV4, NAMESPACES, ONE, TWO, UP, by_address
from helpers.guest.traffic_tools import converse, verify

from emu.guests import Guest, GuestOptions
from emu.server.control import Client

pytestmark = pytest.mark.guest

HERE = "127.0.0.1"
DELAY_MS = 5
MEASURED_MS = 0.8 * DELAY_MS
"""What perftest says of that at least, as it knows the processor's clock to some percent."""
LATENCY = "ib_write_lat -F -s 2 -n 30"


@pytest.fixture(scope="module")
def infiniband(lab, suite):
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6-vf", "connectx6-vf")))
    log, before = KernelLog(guest), len(server_complaints(guest))
    yield guest
    with Client(guest.control_socket) as control:
        control.set_link()
    assert log.complaints() == []
    assert server_complaints(guest)[before:] == []


@pytest.fixture(scope="module")
def roce(lab, suite):
    """The second function is in a network namespace of its own."""
    guest = Guest(
        GuestOptions(
            suite=suite, devices=("connectx6dx",) * 2, memory_mib=1024, kernel_arguments=FEW_KEYS
        )
    )
    guest.start()
    try:
        run(guest, UP.format(address=ONE, nic="eth0"))
        run(guest, NAMESPACES)
        yield guest
        assert server_complaints(guest) == []
    finally:
        guest.stop()


def least_ms(table):
    """The least latency of perftest's table, half of a round trip; the others tell of load, too."""
    _, _, rows = table.partition("#bytes")
    return float(rows.splitlines()[1].split()[2]) / 1000


def counts(control, name):
    return sum(link["counts"].get(name, 0) for link in control.links())


def test_delay_shows_in_the_latency(infiniband):
    def latency():
        """perftest says inf when it could not find out how fast the processor counts."""
        for _ in range(3):
            said = converse(infiniband, infiniband, LATENCY, HERE, client_device="mlx5_1").client
            if isfinite(least_ms(said)):
                break
        return least_ms(said)

    assert latency() < MEASURED_MS
    with Client(infiniband.control_socket) as control:
        control.set_link(direction="tx", delay=f"{DELAY_MS}ms")
        assert latency() >= MEASURED_MS
        control.set_link()
    assert latency() < MEASURED_MS


def test_verified_data_over_a_lossy_subnet(infiniband):
    """Both sides keep their queue pairs until both have finished.

    rdma-core's pingpongs do not: one side ends when it has all it wants. Where the ACK that it sent
    last was lost, nobody is left to send it again, and the other side's retries run out.
    """
    with Client(infiniband.control_socket) as control:
        control.set_link(gemodel=[1, 40], duplicate=1, corrupt=0.5)
        lost = counts(control, "lost")
        verify(infiniband, infiniband, HERE, ["DEVICE=mlx5_0"], ["DEVICE=mlx5_1"])
        assert counts(control, "lost") > lost


@pytest.mark.slow
def test_roce_with_loss_delay_and_verified_data(roce):
    """Now and then rping's server does not end: nothing repeats a DREQ whose sender has gone."""
    ping = f"ip netns exec peer ping -q -c 5 -i 0.3 {ONE}"
    rping = ("rping -s -a {to} -C 30 -S 4000 -V", "rping -c -a {to} -C 30 -S 4000 -V")
    with Client(roce.control_socket) as control:
        run(roce, ping)
        control.set_link(direction="tx", delay=f"{DELAY_MS}ms")
        shortest = float(run(roce, ping).rpartition("= ")[2].split("/")[0])
        assert shortest > 2 * DELAY_MS  # plain frames wait, too
        control.set_link(loss=1, delay="1ms", reorder=5)
        by_address(roce, roce, rping, TWO, "ip netns exec peer")
        assert counts(control, "lost")
        assert counts(control, "reordered")


@pytest.mark.slow
def test_marks_notifications_and_counters(roce):
    at = "/sys/class/infiniband/{}/ports/1/hw_counters/{}"
    rping = ("rping -s -a {to} -C 50 -S 60000 -V", "rping -c -a {to} -C 50 -S 60000 -V")

    def counters(device, *names, inside=""):
        return [int(run(roce, f"{inside} cat {at.format(device, name)}")) for name in names]

    def received():
        names = "np_ecn_marked_roce_packets", "np_cnp_sent"
        return counters("mlx5_1", *names, inside="ip netns exec peer")

    obeyed = counters("mlx5_0", "rp_cnp_handled")
    before = received()
    with Client(roce.control_socket) as control:
        control.set_link(function=0, direction="tx", mark=20)
        by_address(roce, roce, rping, TWO, "ip netns exec peer")
        control.set_link()
    marked, sent = (after - one for after, one in zip(received(), before))
    assert marked >= sent > 0
    # The last ones may find a queue pair that is closed already.
    assert 0 < counters("mlx5_0", "rp_cnp_handled")[0] - obeyed[0] <= sent
    parameters = "/sys/kernel/debug/mlx5/*/cc_params"
    run(roce, "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    run(roce, f"for one in {parameters}/rp_ai_rate; do echo 17 > $one; done")
    assert set(run(roce, f"cat {parameters}/rp_ai_rate").split()) == {"17"}
    assert set(run(roce, f"cat {parameters}/np_cnp_dscp").split()) == {"48"}


def test_a_function_with_itself_passes_no_link(roce):
    with Client(roce.control_socket) as control:
        control.set_link(loss=100)
        converse(roce, roce, f"ibv_rc_pingpong -g {GID_OF_IPV4} -n 50 -c", ONE)
