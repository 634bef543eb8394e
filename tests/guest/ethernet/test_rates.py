"""Rates of queues, traffic classes and trees of them, as the kernel asks the adapter for them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from helpers.guest.guests import (
    FEW_KEYS,
    IN_PEER,
    SECONDS,
    no_complaints,
    prepared,
    run,
    two_namespaces,
)

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
HERE, THERE = "10.0.0.1", "10.0.0.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE) + """
ethtool -L eth0 combined 2
"""  # fmt: skip
DOWN = "ip netns del peer"
SIZE = 400_000
MBPS = 1
MIN_SECONDS = SIZE * 8 / (MBPS * 1_000_000) * 0.9
"""Of a stream that keeps to the rate; how fast one is without decides the guest's processor."""
QUEUES = "for queue in /sys/class/net/eth0/queues/tx-*; do echo {} > $queue/tx_maxrate; done"
BY_CLASS = """
tc qdisc add dev eth0 clsact
tc filter add dev eth0 egress protocol ip flower ip_proto tcp action skbedit priority {}
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = GuestOptions(
        suite=suite, devices=("connectx6dx", "connectx7,link=eth"), kernel_arguments=FEW_KEYS
    )
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/checked_stream.py", stdin=STREAM.read_bytes()).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest):
        yield


def seconds(guest):
    """How long a stream of SIZE bytes takes; what arrives is compared."""
    program = "python3 /tmp/checked_stream.py"
    server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} {program} listen {THERE}")
    run(guest, f"until {IN_PEER}ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done")
    begun = time.monotonic()
    sent = run(guest, f"{program} send {THERE} {SIZE}")
    assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
    taken = time.monotonic() - begun
    assert sent.strip() == server.stdout.decode().split("listening\n")[1].strip()
    return taken


def test_of_queues(guest):
    """The stream goes by one of them."""
    assert "Rate limit: 127 rates are supported" in run(guest, "dmesg | grep 'Rate limit'")
    run(guest, QUEUES.format(MBPS))
    assert seconds(guest) >= MIN_SECONDS
    run(guest, QUEUES.format(0))
    seconds(guest)


def test_of_queues_as_fast_as_the_port(guest):
    """The driver counts in 1024 kb/s (core/en_main.c: mlx5e_set_tx_maxrate)."""
    assert "range: 0Mbps to 97656Mbps" in run(guest, "dmesg | grep 'Rate limit'")
    for rate in (25_000, 97_656):
        run(guest, f"set -e; {QUEUES.format(rate)}")
        seconds(guest)
    run(guest, QUEUES.format(0))


def test_of_traffic_classes(guest):
    run(guest, "dcb maxrate set dev eth0 tc-maxrate 0:200mbit 3:2gbit")
    said = run(guest, "dcb maxrate show dev eth0")
    assert "0:200Mbit 1:0bit 2:0bit 3:2Gbit" in said
    seconds(guest)
    run(guest, "dcb maxrate set dev eth0 tc-maxrate all:0")
    assert "0:0bit" in run(guest, "dcb maxrate show dev eth0")


def test_of_a_tree(guest):
    """htb, offloaded: a leaf below its own limit, and one below that of the node above it."""
    run(
        guest,
        f"""
set -e
ethtool -K eth0 hw-tc-offload on
tc qdisc replace dev eth0 root handle 1: htb offload
tc class add dev eth0 parent 1: classid 1:1 htb rate {MBPS}mbit ceil {MBPS}mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 1mbit ceil {MBPS}mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 1mbit ceil {MBPS}mbit
{BY_CLASS.format("1:10")}
""",
    )
    assert seconds(guest) >= MIN_SECONDS
    said = run(guest, "ethtool -S eth0")
    assert int(re.search(r"qos_tx0_bytes: (\d+)", said)[1]) > SIZE
    run(guest, "tc class change dev eth0 parent 1: classid 1:1 htb rate 1gbit ceil 1gbit")
    run(guest, "tc class change dev eth0 parent 1:1 classid 1:10 htb rate 1gbit ceil 1gbit")
    seconds(guest)
    run(guest, "tc qdisc del dev eth0 clsact; tc class del dev eth0 classid 1:20")
    run(guest, "tc qdisc del dev eth0 root; ethtool -K eth0 hw-tc-offload off")
    seconds(guest)


def test_mqprio(guest):
    """Classes of queues, by the adapter's traffic classes or with rates of their own."""
    run(guest, "tc qdisc add dev eth0 root mqprio num_tc 8 map 0 1 2 3 4 5 6 7 hw 1 mode dcb")
    assert "tc 8 map 0 1 2 3 4 5 6 7" in run(guest, "tc qdisc show dev eth0 root")
    seconds(guest)
    run(guest, "tc qdisc del dev eth0 root")
    rates = f"shaper bw_rlimit max_rate {MBPS}mbit 100mbit"
    run(
        guest,
        "tc qdisc add dev eth0 root mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode channel "
        + rates,
    )
    assert seconds(guest) >= MIN_SECONDS
    run(guest, "tc qdisc del dev eth0 root")
    seconds(guest)
