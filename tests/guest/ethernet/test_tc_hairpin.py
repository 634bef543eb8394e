"""tc's redirection between the ports of a board, by hairpin queues (core/en_tc.c: mlx5e_hairpin_*).

On each port's segment is one more function, whose interface is in a network namespace: what these
two send each other goes in by one port and out by the other. Kernels are those of test_tc_flower.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, prepared, run, two_ends
from helpers.guest.switch_kernel import with_rules_in_hardware

pytestmark = pytest.mark.guest

DEVICES = (
    "connectx6dx,board=1,segment=1", "connectx6dx,board=1,segment=2",
    "connectx6dx-vf,segment=1", "connectx6dx-vf,segment=2",
)  # fmt: skip
CHECKED_STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
OCTETS = 4_000_000
UP = (
    f"set -e{two_ends()}"
    + """mac() { ip -n $1 -o link show $2 | sed 's/.*ether \\([^ ]*\\).*/\\1/'; }
two=$(mac end2 eth2)
three=$(mac end3 eth3)
ip -n end2 neighbour replace 10.0.0.3 lladdr $three dev eth2
ip -n end3 neighbour replace 10.0.0.2 lladdr $two dev eth3
for number in 0 1; do
    ip link set eth$number up
    ethtool -K eth$number hw-tc-offload on
    tc qdisc add dev eth$number ingress
done
redirect="flower skip_sw dst_mac"
tc filter add dev eth0 ingress protocol ip $redirect $three action mirred egress redirect dev eth1
tc filter add dev eth1 ingress protocol ip $redirect $two action mirred egress redirect dev eth0
"""
)
DOWN = """
for number in 0 1; do tc qdisc del dev eth$number ingress; ip link set eth$number down; done
ip netns del end2; ip netns del end3
"""
REDIRECT = """
three=$(ip -n end3 -o link show eth3 | sed 's/.*ether \\([^ ]*\\).*/\\1/')
tc filter add dev eth0 ingress protocol ip flower skip_sw dst_mac $three \
    action mirred egress redirect dev eth1
"""
PING = "ip netns exec end2 ping -q -c 10 -i 0.1 -W 5 -s 1000 10.0.0.3"
STREAM = f"""
ip netns exec end3 timeout 120 python3 /tmp/checked_stream.py listen 10.0.0.3 > /tmp/got &
listener=$!
until ip netns exec end3 ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done
sent=$(ip netns exec end2 python3 /tmp/checked_stream.py send 10.0.0.3 {OCTETS})
wait $listener
test "$(tail -n 1 /tmp/got)" = "$sent"
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = with_rules_in_hardware(lab, suite, DEVICES)
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/checked_stream.py", stdin=CHECKED_STREAM.read_bytes()).check()
        run(
            guest, "ip netns exec end2 timeout 60 sh -c 'until ping -c 1 -W 1 10.0.0.3; do :; done'"
        )
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    """The driver has nothing to complain of, and the server has not either."""
    with no_complaints(guest):
        yield


def received(guest, interface):
    """Packets that have come by the port, and those that the driver has got."""
    out = run(guest, f"ethtool -S {interface}")
    found = dict(re.findall(r"^ +(\w+): (\d+)$", out, re.M))
    return int(found["rx_packets_phy"]), int(found["rx_packets"])


def active(guest):
    """Redirections that have queues, and what debugfs says of each."""
    folder = "/sys/kernel/debug/mlx5/0000:01:00.0/nic/fs/tc"
    mounted = "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug"
    number, *each = run(
        guest, f"{mounted}; cat {folder}/hairpin_num_active {folder}/hairpin_table_dump"
    ).splitlines()
    return int(number), each


def test_debugfs_shows_the_redirection(guest, linux):
    if linux == "6.1":
        pytest.skip("debugfs has it since Linux 6.3")
    number, (one,) = active(guest)
    assert number == 1
    assert re.fullmatch(r"Hairpin peer_vhca_id \d+ prio \d+ refcnt 1 num_channels \d+ .*", one)
    run(guest, "tc filter del dev eth0 ingress")
    assert active(guest) == (0, [])
    run(guest, REDIRECT)
    assert active(guest)[0] == 1


def test_packets_pass_without_the_driver(guest):
    before = received(guest, "eth0")
    assert "10 received" in run(guest, PING)
    after = received(guest, "eth0")
    assert after[0] >= before[0] + 10
    assert after[1] == before[1]


def test_a_stream(guest):
    """Super-frames of the sender's stay whole on their way, and nothing is lost."""
    run(guest, STREAM)
    assert "rx_out_of_buffer: 0" in run(guest, "ethtool -S eth0")


def test_rules_change_while_packets_pass(guest):
    """The last rule of a redirection takes the queues with it; the next one makes others."""
    run(guest, f"{PING} > /tmp/pinged & sleep 0.3; tc filter del dev eth0 ingress; wait $!")
    assert run(guest, f"{PING} -c 2 -W 1 || :").count("0 received") == 1
    run(guest, REDIRECT)
    assert "10 received" in run(guest, PING)
