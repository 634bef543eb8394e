"""Long frames by the ways that mlx5e takes for short ones too, with an MTU of 9000."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import IN_PEER, SECONDS, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

REFLECT = Path(__file__).parents[1] / "inside" / "xdp_reflect.py"
HERE, THERE = "10.0.0.1", "10.0.0.2"
MTU = 9000
UP = f"""
{two_namespaces("eth0", "eth1", HERE, THERE)}
ip link set eth0 mtu {MTU}
ip -n peer link set eth1 mtu {MTU}
ping -c 1 -W 20 {THERE}
"""
DOWN = "ip netns del peer"


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up."""
    options = GuestOptions(suite=suite, devices=("connectx6dx", "connectx6dx"))
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/xdp_reflect.py", stdin=REFLECT.read_bytes()).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest):
        yield


def counters(guest):
    """Return what the driver has counted: of the sending interface, and of the receiving one."""
    said = (run(guest, "ethtool -S eth0"), run(guest, f"{IN_PEER}ethtool -S eth1"))
    return [{key: int(n) for key, n in re.findall(r"(\w+): (\d+)$", one, re.M)} for one in said]


def grown(guest, traffic):
    """By how much these counters grow meanwhile."""
    before = counters(guest)
    traffic()
    return [
        {key: new[key] - old.get(key, 0) for key in new}
        for old, new in zip(before, counters(guest))
    ]


def test_datagrams_leave_together(guest):
    """The receiver's socket may drop some, and its ring may be full: the interface has had them.

    The kernel sends several at once by its byte queue limits (sch_generic.c: try_bulk_dequeue_skb).
    """
    if guest.run("test -e /sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit").status:
        pytest.skip("this kernel has no byte queue limits, and sends packets one by one")

    def traffic():
        server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} iperf3 --server --one-off")
        run(guest, f"until {IN_PEER}ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done")
        run(guest, f"iperf3 -c {THERE} -u -l 6000 -b 400M -t 5 -P 4")
        assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()

    sent, received = grown(guest, traffic)
    assert sent["tx_mpwqe_pkts"] > sent["tx_mpwqe_blks"] > 0
    assert sent["tx_cqe_err"] == sent["tx_recover"] == 0
    assert sent["tx_packets"] > 1000
    arrived = received["rx_packets"] + received["rx_out_of_buffer"]
    assert arrived > 0.99 * sent["tx_packets"]
    assert received["rx_bytes"] > 0.5 * sent["tx_bytes"]


UP_WITH = f"""
set -e
ethtool --set-priv-flags eth0 rx_striding_rq {{striding}}
ip link set eth0 mtu {{mtu}}
ip -n peer link set eth1 mtu {{mtu}}
until ip link show eth0 | grep -q LOWER_UP && {IN_PEER}ip link show eth1 | grep -q LOWER_UP; do
    sleep 0.1
done
"""
REFLECT_BY = """
python3 /tmp/xdp_reflect.py reflect eth0 {action} > /tmp/reflecting 2>&1 &
until grep -q reflecting /tmp/reflecting; do
    kill -0 $! || { cat /tmp/reflecting; exit 1; }
    sleep 0.1
done
"""
END = "pkill -f [x]dp_reflect.py; while pgrep -f [x]dp_reflect.py; do sleep 0.1; done"
COMPARE = f"""
{IN_PEER}python3 /tmp/xdp_reflect.py compare eth1 $(cat /sys/class/net/eth0/address) {{mtu}}
"""


@pytest.mark.parametrize(
    ("mtu", "striding"), [(1500, "on"), (3498, "on"), (MTU, "on"), (MTU, "off")]
)
@pytest.mark.parametrize("action", ["tx", "redirect"])
def test_xdp_sends_frames_back(guest, suite, action, mtu, striding):
    """Short and long ones, which leave in multi-packet requests where they are in one piece.

    Up to an MTU of 3498 each frame is in one buffer (core/en/xdp.h: MLX5E_XDP_MAX_MTU).
    """
    if suite == "bookworm" and (mtu, striding) == (MTU, "on"):
        pytest.skip("Linux 6.1 has no frames of several buffers in striding queues")
    if suite == "bookworm" and (action, mtu) == ("redirect", MTU):
        pytest.skip("Linux 6.1 redirects no frames of several buffers (net/core: xdp_do_redirect)")
    run(guest, UP_WITH.format(mtu=mtu, striding=striding))

    def traffic():
        run(guest, REFLECT_BY.replace("{action}", action))
        try:
            said = run(guest, COMPARE.format(mtu=mtu))
        finally:
            run(guest, END)
        assert "384 frames are the same" in said

    sent, _ = grown(guest, traffic)
    way = "rx_xdp_tx" if action == "tx" else "tx_xdp"
    assert sent[f"{way}_xmit"] == 384
    assert mtu == MTU or sent[f"{way}_mpwqe"] > 0
    assert sent["rx_xdp_tx_err"] == sent["tx_xdp_err"] == sent["rx_wqe_err"] == 0
