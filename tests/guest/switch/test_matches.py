"""Rules of tc flower about single fields, and what they change, with tables of either owner."""

from __future__ import annotations

import re

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import (
    DEV,
    clear,
    cross,
    in_hardware,
    redirect,
    set_mode,
    sub_functions,
    track_connections,
)

pytestmark = [pytest.mark.guest, pytest.mark.slow]

ICMP = "protocol ip prio 1 flower skip_sw ip_proto icmp"
MATCHES = {
    "MAC addresses": ("src_mac {0.mac} dst_mac {1.mac}", "src_mac {1.mac} dst_mac {1.mac}"),
    "TTL": ("ip_ttl 64", "ip_ttl 63"),
    "TOS": ("ip_tos 0", "ip_tos 4"),
    "addresses": ("src_ip {0.address} dst_ip {1.address}", "src_ip {1.address}"),
    "fragments": ("ip_flags nofrag", "ip_flags frag"),
}
"""What the packets of a ping are, and what they are not."""


@pytest.mark.parametrize("field", MATCHES)
def test_a_match(guest, pair, field):
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    redirect(guest, one.representor, two.representor, "", "protocol arp prio 9 flower skip_sw")
    right, wrong = (match.format(*pair) for match in MATCHES[field])
    redirect(guest, one.representor, two.representor, right, ICMP)
    one.reaches(two.address)
    assert in_hardware(guest, one.representor, 3) >= 3
    run(guest, f"tc filter del dev {one.representor} ingress prio 1")
    redirect(guest, one.representor, two.representor, wrong, ICMP)
    one.run(f"sh -c '! ping -q -c 2 -i 0.2 -W 1 {two.address}'")
    clear(guest, one.representor, two.representor)


@pytest.mark.parametrize(("munge", "ttl"), [("add 0xf0", 48), ("dec", 63), ("set 33", 33)])
def test_a_field_changes(guest, pair, munge, ttl):
    """A sum is of eight bits, without a carry."""
    one, two = pair
    cross(guest, pair)
    clear(guest, two.representor)
    change = f"action pedit ex munge ip ttl {munge} pipe csum ip pipe"
    redirect(guest, two.representor, one.representor, change, ICMP)
    redirect(guest, two.representor, one.representor, "", "protocol arp prio 2 flower skip_sw")
    assert f"ttl={ttl}" in one.run(f"ping -c 2 -W 20 {two.address}")
    assert in_hardware(guest, two.representor, 2) >= 2
    clear(guest, one.representor, two.representor)


def test_a_mirror_gets_what_came(guest, pair):
    """One that is named before the change gets the packet as it was (core/esw/vporttbl.c)."""
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    change = "action mirred egress mirror dev eth0 pipe"
    change += " action pedit ex munge ip ttl set 33 pipe csum ip pipe"
    redirect(guest, one.representor, two.representor, change, ICMP)
    redirect(guest, one.representor, two.representor, "", "protocol arp prio 2 flower skip_sw")
    ears, counted = ((two.space, two.name), ("peer", "eth1")), {}
    run(guest, "ip -n peer link set eth1 promisc on")
    for space, name in ears:
        run(guest, f"tc -n {space} qdisc add dev {name} clsact")
        for prio, ttl in enumerate((33, 64), 1):
            rule = f"protocol ip prio {prio} flower skip_hw ip_proto icmp ip_ttl {ttl} action ok"
            run(guest, f"tc -n {space} filter add dev {name} ingress {rule}")
    one.reaches(two.address)
    for space, name in ears:
        said = run(guest, f"tc -n {space} -s filter show dev {name} ingress")
        counted[name] = [int(count) for count in re.findall(r"Sent \d+ bytes (\d+) pkt", said)]
        run(guest, f"tc -n {space} qdisc del dev {name} clsact")
    run(guest, "ip -n peer link set eth1 promisc off")
    assert counted == {two.name: [3, 0], "eth1": [0, 3]}
    clear(guest, one.representor, two.representor)


def test_an_interface_of_a_vlan(guest, pair):
    """What a rule sends to one above the cable's gets the tag, which is taken off on the way in."""
    one, _ = pair
    for inside, name in (("", "eth0"), ("-n peer", "eth1")):
        run(guest, f"ip {inside} link add link {name} name v7 type vlan id 7")
        run(guest, f"ip {inside} link set v7 up")
    run(guest, "ip -n peer address add 10.0.7.9/24 dev v7; ethtool -K eth0 hw-tc-offload on")
    one.run(f"ip address add 10.0.7.1/24 dev {one.name}")
    redirect(guest, one.representor, "v7")
    redirect(guest, "v7", one.representor, "", "protocol all flower")
    one.reaches("10.0.7.9")
    assert in_hardware(guest, one.representor, 3) >= 3
    assert in_hardware(guest, "v7", 3) >= 3
    clear(guest, one.representor, "v7")
    run(guest, "ip link del v7; ip -n peer link del v7")


def test_connections_are_tracked_by_firmwares_tables(guest):
    """With ``flow_steering_mode`` dmfs the driver writes no entry itself."""
    param = f"devlink dev param set {DEV} name flow_steering_mode cmode runtime value"
    set_mode(guest, "legacy")
    run(guest, f"{param} dmfs")
    set_mode(guest, "switchdev")
    with sub_functions(guest) as pair:
        track_connections(guest, pair)
    set_mode(guest, "legacy")
    run(guest, f"{param} smfs")
