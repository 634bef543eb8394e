"""A bond of representors: what the switch leads to either sub-function, the active one gets."""

from __future__ import annotations

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import PEER, clear, redirect

pytestmark = [pytest.mark.guest, pytest.mark.slow]


@pytest.fixture
def bond(guest, pair):
    """Of both representors; both sub-functions are in one namespace, in a bond as well."""
    one, two = pair
    run(guest, f"ip netns exec {two.space} ip link set {two.name} netns {one.space}")
    one.run(f"ip address del {one.address}/24 dev {one.name}")
    slaves = "mode active-backup miimon 100"
    enslave(guest, f"-n {one.space}", "vm", f"{slaves} all_slaves_active 1", one.name, two.name)
    one.run("ip address add 10.0.9.5/24 dev vm")
    enslave(guest, "", "rep", slaves, one.representor, two.representor)
    yield pair
    run(guest, f"ip link del rep; ip -n {one.space} link del vm")
    run(guest, f"ip netns exec {one.space} ip link set {two.name} netns {two.space}")


def enslave(guest, space, name, settings, *slaves):
    run(guest, f"ip {space} link add {name} type bond {settings}")
    for slave in slaves:
        run(guest, f"ip {space} link set {slave} down; ip {space} link set {slave} master {name}")
    run(guest, f"ip {space} link set {name} up")


def activate(guest, pair, at):
    """Both bonds use one of them."""
    one = pair[0]
    run(guest, f"ip link set rep type bond active_slave {pair[at].representor}")
    run(guest, f"ip -n {one.space} link set vm type bond active_slave {pair[at].name}")


def came(guest, pair):
    """Packets that each of them has got."""
    said = [pair[0].run(f"cat /sys/class/net/{sf.name}/statistics/rx_packets") for sf in pair]
    return [int(count) for count in said]


def test_the_active_one_gets_what_is_for_either(guest, bond):
    """By the egress ACL of the other one, which sends it on (esw/acl/egress_ofld.c)."""
    one, two = bond
    for sf in bond:
        redirect(guest, sf.representor, "eth0")
    redirect(guest, "eth0", one.representor)
    for at, expected in ((0, [20, 0]), (1, [0, 20]), (0, [20, 0])):
        activate(guest, bond, at)
        one.run(f"ping -c 3 -i 0.2 -W 20 {PEER}")
        before = came(guest, bond)
        one.run(f"ping -q -c 20 -i 0.02 -W 20 {PEER}")
        got = [after - was for was, after in zip(before, came(guest, bond))]
        assert [count // 20 * 20 for count in got] == expected
    clear(guest, one.representor, two.representor, "eth0")
