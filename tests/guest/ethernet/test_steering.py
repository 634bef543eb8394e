"""Flow tables, TIRs and RQTs under a stock mlx5e: ntuple rules, RSS, aRFS (ethtool -N, -X, -K).

Datagrams come from a second function's interface in a network namespace of its own. Which channel
has got them is what ``ethtool -S`` counts.
"""

from __future__ import annotations

import re
import shlex

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

DEVICES = ("connectx6dx", "connectx6dx-vf")
HERE, THERE = "10.0.1.1", "10.0.1.2"
COUNT = 16
"""Datagrams that are sent at once: fewer than a receive queue has room for."""
LOOKS = 10
"""How often to look for them: the driver counts a packet when it has polled the completion."""

UP = (
    two_namespaces("eth0", "eth1", HERE, THERE)
    + f"ethtool -K eth0 ntuple on; {IN_PEER}ping -c 1 -W 20 {HERE}"
)
DOWN = "ethtool -K eth0 ntuple off; ip netns del peer"

SEND = """
import socket, sys
host, port, sources = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(int(sys.argv[4])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        # The hash is linear: ports that differ in few bits may all have one channel.
        out.bind(("", 20000 + number % sources * 997))
        out.sendto(b"x" * 100, (host, port))
"""
"""Arguments: host, port, from how many ports, how many datagrams."""


ARFS = """
echo 4096 > /proc/sys/net/core/rps_sock_flow_entries
for queue in /sys/class/net/eth0/queues/rx-*; do echo 2048 > $queue/rps_flow_cnt; done
"""
NO_ARFS = ARFS.replace("4096", "0").replace("2048", "0")

CLIENT = """
import socket, sys
for _ in range(8):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as one:
        for _ in range(10):
            one.sendall(b"x" * 1000)
            assert one.recv(1) == b"y"
"""
SERVER = """
import socket, subprocess, sys
host, client = sys.argv[1:]
listening = socket.create_server((host, 0))
port = str(listening.getsockname()[1])
peer = subprocess.Popen(["ip", "netns", "exec", "peer", "python3", "-c", client, host, port])
for _ in range(8):
    one, _ = listening.accept()
    got = 0
    while data := one.recv(65536):
        got += len(data)
        if got % 1000 == 0:
            one.send(b"y")
sys.exit(peer.wait())
"""
"""TCP connections from the peer, one after the other, each with some questions and answers."""
STREAMS = f"python3 -c {shlex.quote(SERVER)} {HERE} {shlex.quote(CLIENT)}"


LEFTOVERS = "1 2"
"""IBV_FLOW_ATTR_ALL_DEFAULT and IBV_FLOW_ATTR_MC_DEFAULT."""

VERBS = """
import sys, types
here = "/usr/share/rdma-core-tests"
sys.path.insert(0, here)
package = sys.modules["tests"] = types.ModuleType("tests")
package.__path__ = [here]
from pyverbs.flow import Flow, FlowAttr
from pyverbs.pyverbs_error import PyverbsError
from tests import test_flow, utils

DONT_TRAP = 1 << 1  # IBV_FLOW_ATTR_FLAGS_DONT_TRAP

def side():
    return test_flow.FlowRes(dev_name="mlx5_0", ib_port=1, gid_index=0)

def normal(one, priority, flags=0):
    attr = FlowAttr(num_of_specs=1, port=1, priority=priority, flags=flags)
    attr.specs.append(one.create_eth_spec())
    return Flow(one.qp, attr)

client, server, other = side(), side(), side()
for kind in map(int, sys.argv[1:]):
    flow = Flow(server.qp, FlowAttr(flow_type=kind, port=1))
    for attempt in range(3):
        try:
            utils.raw_traffic(client, server, 4)
            break
        except PyverbsError as error:
            # The interface's own multicast comes as well, now that all is wanted.
            assert "Data validation" in str(error) and attempt < 2, str(error)
    flow.close()

# The first rule does not trap: the second one, of a lower priority, gets the frames as well.
first, second = normal(server, 0, DONT_TRAP), normal(other, 1)
utils.post_recv(other, utils.get_recv_wr(other))
utils.raw_traffic(client, server, 4)
assert other.cq.poll(1)[0] == 1
first.close()

# Several queue pairs of one rule; those of multicast addresses have one priority (ib/fs.c).
third = normal(server, 1)
utils.post_recv(other, utils.get_recv_wr(other))
utils.raw_traffic(client, server, 2)
assert other.cq.poll(1)[0] == 1
print("verbs flows work")
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up, and nothing left of them afterwards."""
    with prepared(lab, GuestOptions(suite=suite, devices=DEVICES), UP, DOWN) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    """The driver has nothing to complain of, and the server has not either."""
    with no_complaints(guest):
        yield


@pytest.fixture
def counts(guest):
    """Packets that each channel has received, by the driver's own statistics."""

    def read():
        found = re.findall(r"^ *rx(\d+)_packets: (\d+)$", run(guest, "ethtool -S eth0"), re.M)
        return [int(packets) for _, packets in sorted(found, key=lambda item: int(item[0]))]

    return read


@pytest.fixture
def arrive(guest, counts):
    """By how much each channel's packets grow when datagrams come from so many ports."""

    def send(port, sources=1):
        before = counts()
        command = f"{IN_PEER}python3 -c {shlex.quote(SEND)} {HERE} {port} {sources} {COUNT}"
        run(guest, command)
        for _ in range(LOOKS):
            found = [now - then for now, then in zip(counts(), before)]
            if sum(found) >= COUNT:
                break
        return found

    return send


@pytest.fixture
def rule(guest):
    """Adds an ntuple rule; all rules go at the end."""
    made = []

    def add(text):
        out = run(guest, f"ethtool -N eth0 {text}")
        made.append(re.search(r"rule with ID (\d+)", out).group(1))

    yield add
    for number in made:
        run(guest, f"ethtool -N eth0 delete {number}")


@pytest.mark.parametrize("channel", [0, 1])
def test_rule_leads_to_a_channel(arrive, rule, channel):
    rule(f"flow-type udp4 dst-port 5001 action {channel}")
    assert arrive(5001, sources=COUNT)[channel] >= COUNT


def test_rule_is_gone_with_its_deletion(guest, arrive, rule):
    run(guest, "ethtool -N eth0 flow-type udp4 dst-port 5001 action 1 loc 1000")
    run(guest, "ethtool -N eth0 delete 1000")
    assert all(arrive(5001, sources=COUNT)), "hashed to both again"


def test_more_specific_rules_come_first(arrive, rule):
    """Rules of more fields are in tables of lower levels (en_fs_ethtool.c: get_flow_table)."""
    rule("flow-type udp4 dst-port 5002 action 0")
    rule(f"flow-type udp4 src-ip {THERE} dst-ip {HERE} dst-port 5002 action 1")
    assert arrive(5002)[1] >= COUNT


def test_rule_drops(guest, arrive, rule):
    rule("flow-type udp4 dst-port 5003 action -1")
    assert sum(arrive(5003)) < COUNT
    assert sum(arrive(5004)) >= COUNT


def test_rule_by_addresses(arrive, rule, guest):
    """Ethernet and IPv4 fields, with masks."""
    mac = run(guest, f"{IN_PEER}cat /sys/class/net/eth1/address").strip()
    rule(f"flow-type ether src {mac} action 1")
    assert arrive(5005, sources=COUNT)[1] >= COUNT
    rule(f"flow-type ip4 src-ip {THERE} m 0.0.0.0 l4proto 17 action 0")
    assert arrive(5005, sources=COUNT)[0] >= COUNT


def test_table_of_hashes(guest, arrive):
    """MODIFY_RQT: all to one channel, and back to both."""
    for weights, channel in (("1 0", 0), ("0 1", 1)):
        run(guest, f"ethtool -X eth0 weight {weights}")
        assert arrive(5006, sources=COUNT)[channel] >= COUNT
    run(guest, "ethtool -X eth0 default")
    assert all(arrive(5006, sources=COUNT))


def test_what_is_hashed(guest, arrive):
    """MODIFY_TIR: without ports all datagrams between two addresses are one flow."""
    run(guest, "ethtool -N eth0 rx-flow-hash udp4 sd")
    found = arrive(5007, sources=COUNT)
    assert max(found) >= COUNT > min(found)
    run(guest, "ethtool -N eth0 rx-flow-hash udp4 sdfn")
    assert all(arrive(5007, sources=COUNT))


def test_another_hash(guest, arrive):
    run(guest, "ethtool -X eth0 hfunc xor")
    assert sum(arrive(5008, sources=COUNT)) >= COUNT
    run(guest, "ethtool -X eth0 hfunc toeplitz")
    assert all(arrive(5008, sources=COUNT))


def test_context_of_its_own(guest, arrive, rule):
    """TIRs and an RQT besides the default ones, for the packets of a rule."""
    out = run(guest, "ethtool -X eth0 context new start 1 equal 1")
    number = re.search(r"New RSS context is (\d+)", out).group(1)
    rule(f"flow-type udp4 dst-port 5009 context {number}")
    assert arrive(5009, sources=COUNT)[1] >= COUNT
    assert all(arrive(5010, sources=COUNT))


def test_flows_follow_their_process(guest):
    """aRFS: the driver makes a flow table entry for each flow, to the channel of its reader's CPU.

    TTC entries lead to the aRFS tables meanwhile (en_arfs.c: arfs_enable), and back afterwards.
    """
    try:
        run(guest, ARFS)
        run(guest, f"taskset 2 {STREAMS}; taskset 1 {STREAMS}")
        found = run(guest, "ethtool -S eth0")
        added = re.findall(r"rx\d+_arfs_add: (\d+)", found)
        assert not added or sum(map(int, added)), "Linux 6.1 does not count them"
        errors = re.findall(r"rx\d+_arfs_err: (\d+)", found)
        assert errors
        assert not sum(map(int, errors))
    finally:
        run(guest, NO_ARFS)
    run(guest, "ethtool -K eth0 ntuple off")
    run(guest, f"ping -c 1 -W 20 {THERE}")
    run(guest, "ethtool -K eth0 ntuple on")


def test_flows_of_verbs(guest, suite):
    """Leftovers, flows that do not trap, several queue pairs of one flow (ib/fs.c).

    Leftovers cannot be made on Linux 7.2, which refuses them before it asks the device: in
    ib/fs.c, create_leftovers_rule has its specification before the attributes in memory, and
    _create_flow_rule reads it behind them.
    """
    leftovers = "" if suite == "sid" else LEFTOVERS
    assert "verbs flows work" in run(guest, f"python3 -c {shlex.quote(VERBS)} {leftovers}")
