"""tc flower in the adapter, without an embedded switch: rules that software skips (core/en_tc.c).

Debian builds the driver without CONFIG_MLX5_CLS_ACT on Linux 6.12 and 7.2. In the place of 6.12 is
the kernel that tests of switches have, if there is one; with 7.2 nothing is tested.
"""

from __future__ import annotations

import re
import shlex

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, prepared, run, two_namespaces
from helpers.guest.switch_kernel import with_rules_in_hardware

pytestmark = pytest.mark.guest

DEVICES = ("connectx6dx", "connectx6dx-vf")
HERE, THERE = "10.0.1.1", "10.0.1.2"
COUNT = 3
"""Datagrams to each port."""

UP = (
    two_namespaces("eth0", "eth1", HERE, THERE)
    + f"{IN_PEER}ping -c 1 -W 20 {HERE}; ethtool -K eth0 hw-tc-offload on"
)
DOWN = "ethtool -K eth0 hw-tc-offload off; ip netns del peer"

TALK = """
import select, socket, subprocess, sys
first, last, host, sender = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
ports = {}
for port in range(first, last + 1):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("", port))
    one.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL, which Python has no name for
    ports[one] = port
command = ["ip", "netns", "exec", "peer", "python3", "-c", sender, host, *sys.argv[1:3]]
subprocess.run(command, check=True)
while ready := select.select(list(ports), [], [], 1)[0]:
    for one in ready:
        _, found, *_ = one.recvmsg(2000, 100)
        print("port", ports[one], "ttl", found[0][2][0])
"""
SEND = f"""
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(int(sys.argv[2]), int(sys.argv[3]) + 1):
    for _ in range({COUNT}):
        out.sendto(b"x" * 100, (sys.argv[1], port))
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up, one of which takes rules."""
    options = with_rules_in_hardware(lab, suite, DEVICES)
    with prepared(lab, options, UP, DOWN) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    """The driver has nothing to complain of, and the server has not either."""
    with no_complaints(guest):
        yield


@pytest.fixture
def rule(guest):
    """Adds a rule for datagrams to a port; all rules go at the end."""
    run(guest, "tc qdisc add dev eth0 ingress")

    def add(prio, text, options="flower skip_sw ip_proto udp", chain=0):
        where = f"protocol ip chain {chain} prio {prio}"
        run(guest, f"tc filter add dev eth0 ingress {where} {options} {text}")

    yield add
    run(guest, "tc qdisc del dev eth0 ingress")


@pytest.fixture
def talk(guest):
    """What arrives of the datagrams to a range of ports: (port, TTL) of each."""

    def send(first, last):
        words = (TALK, first, last, HERE, SEND)
        out = run(guest, "python3 -c " + " ".join(shlex.quote(str(word)) for word in words))
        found = re.findall(r"^port (\d+) ttl (\d+)$", out, re.M)
        return sorted((int(port), int(ttl)) for port, ttl in found)

    return send


def hits(guest, prio, chain=0):
    """Packets that the adapter has counted of a rule, once the driver has asked for them."""
    command = f"tc -s filter show dev eth0 ingress chain {chain} prio {prio} protocol ip"
    out = run(guest, f"sleep 2; {command}")
    return [int(number) for number in re.findall(r"Sent hardware \d+ bytes (\d+) pkt", out)]


def test_actions(guest, rule, talk):
    """Drop, mark, go to another chain, change headers: each does that, in the adapter."""
    rule(1, "dst_port 7001 action drop")
    rule(2, "dst_port 7002 action skbedit mark 5")
    rule(99, "handle 5 fw action drop", options="")
    rule(3, "dst_port 7003 action goto chain 1")
    rule(1, f"src_ip {THERE} action drop", chain=1)
    rule(
        4,
        "dst_port 7004 action pedit ex munge udp dport set 7005 munge ip ttl dec pipe "
        "action csum ip and udp pipe action ok",
    )
    arrived = talk(7001, 7006)
    assert arrived == [(7005, 63)] * COUNT + [(7005, 64)] * COUNT + [(7006, 64)] * COUNT
    for prio in (1, 2, 3, 4):
        assert set(hits(guest, prio)) == {COUNT}, prio
    assert hits(guest, 1, chain=1) == [COUNT]


def test_what_is_matched(guest, rule, talk):
    """Fields that do not fit keep a rule from its packets; the order of rules is that of tc."""
    rule(1, "src_ip 10.0.1.9 dst_port 7001 action drop")
    rule(2, f"src_ip {THERE} dst_port 7001 action ok")
    rule(3, "dst_port 7001 action drop")
    rule(4, "ip_tos 0x20/0xfc dst_port 7002 action drop")
    rule(5, "ip_flags nofrag dst_port 7003 action drop")
    assert talk(7001, 7003) == [(port, 64) for port in (7001, 7002) for _ in range(COUNT)]
    assert hits(guest, 2) == [COUNT]
    assert hits(guest, 5) == [COUNT]
