"""Bridges of the kernel over representors and the uplink, which the switch carries out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import DEV, PEER, bridged, seen

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PROGRAM = Path(__file__).parents[1] / "inside/multicast.py"
COUNT = 40
"""Packets to a group, or of a ping."""
FEW = 10
"""Of which the kernel sees fewer than so many: queries and neighbours are also among those."""


@pytest.fixture
def bridge(guest, pair):
    """Two sub-functions and the cable are its ports."""
    bridged(guest, *(sf.representor for sf in pair), "eth0")
    yield pair
    run(guest, "ip link del br0")


@pytest.fixture
def snooping(guest, bridge):
    """The bridge learns who has joined a group. The driver has to be told of it when it has the
    ports: of a port that joins, the kernel tells it so before the port is one (br_if.c: br_add_if).
    """
    run(guest, "ip link set br0 type bridge mcast_snooping 0")
    run(guest, "ip link set br0 type bridge mcast_snooping 1 mcast_querier 1")
    guest.run("cat > /tmp/multicast.py", stdin=PROGRAM.read_bytes()).check()
    return bridge


def tagged(guest, pair):
    """The bridge looks at VLANs, of which 7 passes; everybody has an interface in it."""
    one, two = pair
    run(guest, "ip link set br0 type bridge vlan_filtering 1")
    for name in (one.representor, two.representor, "eth0"):
        run(guest, f"bridge vlan add dev {name} vid 7")
    for space, name, number in (
        (one.space, one.name, 1),
        (two.space, two.name, 2),
        ("peer", "eth1", 9),
    ):
        run(guest, f"ip -n {space} link add link {name} name v7 type vlan id 7")
        run(guest, f"ip -n {space} address add 10.0.7.{number}/24 dev v7")
        run(guest, f"ip -n {space} link set v7 up")


def untagged(guest, pair):
    for space in (*(sf.space for sf in pair), "peer"):
        run(guest, f"ip -n {space} link del v7")


def check_group(guest, pair, group, devices):
    """Who has joined hears what one of them says, and nobody else; the kernel sees none of it."""
    one, two = pair
    one.reaches(two.address)  # packets from an address that the bridge does not know are its own
    run(guest, f"until bridge fdb show br br0 | grep -q '{one.mac} .*offload'; do sleep 0.2; done")
    listen = f"python3 /tmp/multicast.py listen {group}"
    ears = [
        guest.popen(f"ip netns exec {space} {listen} {device} {COUNT}")
        for space, device in ((two.space, devices[1]), ("peer", devices[2]))
    ]
    offloaded = f"bridge -d mdb show | grep -c '{group} .*offload'"
    run(guest, f"until [ $({offloaded}) = 2 ]; do sleep 0.2; done")
    # An IPv6 address that may be somebody else's yet sends nothing.
    one.run("sh -c 'while ip -6 address show tentative | grep -q inet6; do sleep 0.2; done'")
    before = seen(guest, one.representor)
    one.run(f"python3 /tmp/multicast.py speak {group} {devices[0]} {COUNT}")
    for ear in ears:
        assert guest.wait(ear, timeout=100) == 0, ear.stderr.decode()
    assert seen(guest, one.representor) - before < FEW


def test_traffic_and_the_table_of_addresses(guest, bridge):
    one, two = bridge
    one.reaches(two.address)
    one.reaches(PEER)
    two.reaches(PEER)
    before = seen(guest, one.representor)
    one.run(f"ping -q -c {COUNT} -i 0.02 -W 20 {two.address}")
    assert seen(guest, one.representor) - before < FEW
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 2 -J"))
    assert said["end"]["sum_received"]["bytes"] > 1 << 16
    assert "offload" in run(guest, "bridge fdb show br br0")
    told = run(guest, f"cat /sys/kernel/debug/mlx5/{DEV[4:]}/esw/bridge/br0/fdb")
    packets = re.search(rf"{one.representor} +{one.mac} +0 +(\d+)", told)
    assert packets
    assert int(packets[1]) > COUNT
    run(guest, "bridge fdb flush dev br0")
    one.reaches(two.address)


def test_vlans_of_either_kind(guest, bridge):
    one, _ = bridge
    tagged(guest, bridge)
    for number in (2, 9):
        one.reaches(f"10.0.7.{number}")
    run(guest, "ip link set br0 type bridge vlan_protocol 802.1ad")
    one.reaches(PEER)
    run(guest, "ip link set br0 type bridge vlan_protocol 802.1Q vlan_filtering 0")
    one.reaches("10.0.7.9")
    untagged(guest, bridge)


@pytest.mark.parametrize("group", ["239.1.2.3", "ff05::123"])
def test_multicast_goes_to_those_who_have_joined(guest, snooping, group):
    """By IGMP, and by MLD."""
    one, two = snooping
    check_group(guest, snooping, group, (one.name, two.name, "eth1"))


def test_multicast_in_a_vlan(guest, snooping):
    tagged(guest, snooping)
    check_group(guest, snooping, "239.1.2.3", ("v7", "v7", "v7"))
    untagged(guest, snooping)
