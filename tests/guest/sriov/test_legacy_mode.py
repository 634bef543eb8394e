"""Virtual functions in legacy mode: `ip link set eth0 vf`, as an administrator uses it."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import DEV, HERE, PEER, Vf, bind, reaches, told, with_peer
from helpers.guest.virtual_functions import PF, enable

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

VLAN_PEER = "10.5.7.200"


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    """Its first function has virtual ones; the second one, in a namespace, is behind the cable."""
    with with_peer(lab, suite, **kernel) as guest:
        run(
            guest,
            f"""
ip -n peer link add link eth1 name vlan5 type vlan id 5
ip -n peer address add {VLAN_PEER}/24 dev vlan5; ip -n peer link set vlan5 up""",
        )
        yield guest


@pytest.fixture(scope="module")
def both(guest):
    vfs = [Vf(guest, number).start() for number in (0, 1)]
    yield vfs
    if guest.is_running:
        for vf in vfs:
            run(guest, f"ip netns del {vf.space}")


def test_everybody_reaches_everybody(guest, both):
    one, two = both
    for address in (HERE, two.address, PEER):
        assert one.reaches(address)
    assert reaches(guest, "", one.address)
    assert reaches(guest, "peer", two.address)


def test_addresses_are_told(guest, both):
    found = told(guest)
    assert [vf["address"] for vf in found] == [vf.mac for vf in both]
    for vf in both:
        assert vf.mac in vf.run(f"ip link show {vf.name}")


def test_a_checked_address(guest, both):
    one, two = both
    one.set("spoofchk on")
    assert told(guest)[0]["spoofchk"]
    assert one.reaches(two.address)
    one.run(f"ip link set {one.name} address 02:00:00:00:66:66")
    assert not one.reaches(two.address)
    one.run(f"ip link set {one.name} address {one.mac}")
    assert one.reaches(two.address)
    one.set("spoofchk off")
    said = run(guest, "ip -s -j link show eth0")
    assert '"tx_dropped"' in said or '"dropped"' in said


def test_a_vlan_that_the_virtual_function_does_not_see(guest, both):
    """VST: tagged on the cable, untagged in the virtual function."""
    one, two = both
    one.run(f"ip address add 10.5.7.1/24 dev {one.name}")
    one.set("vlan 5")
    assert one.reaches(VLAN_PEER)
    assert not one.reaches(two.address)
    one.set("vlan 0")
    assert one.reaches(two.address)
    assert not one.reaches(VLAN_PEER)


def test_the_state_of_a_link(guest, both):
    one, two = both
    two.set("state disable")
    two.wait_for("NO-CARRIER")
    assert not one.reaches(two.address)
    two.set("state auto")
    two.wait_for("LOWER_UP")
    assert one.reaches(two.address, times=10)


def test_a_trusted_function_is_promiscuous(guest, both):
    """Untrusted, it receives nothing of what the cable brings for nobody."""
    one, _ = both
    one.run(f"ip link set {one.name} promisc on")
    counts = {}
    for trust in ("off", "on"):
        one.set(f"trust {trust}")
        before = received(one)
        run(
            guest,
            "ip -n peer neigh replace 10.0.7.77 lladdr 02:00:00:00:77:77 dev eth1; "
            "ip netns exec peer ping -c 5 -i 0.2 -W 1 10.0.7.77 >/dev/null; true",
        )
        counts[trust] = received(one) - before
    assert counts["off"] < 5 <= counts["on"]
    one.set("trust off")
    one.run(f"ip link set {one.name} promisc off")


def received(vf):
    return int(vf.run(f"cat /sys/class/net/{vf.name}/statistics/rx_packets"))


def test_a_rate_is_told(guest, both):
    one, two = both
    one.set("max_tx_rate 100")
    assert told(guest)[0]["rate"]["max_tx"] == 100
    assert one.reaches(two.address)
    one.set("max_tx_rate 0")


def test_a_guaranteed_rate_is_told(guest, both):
    one, two = both
    one.set("min_tx_rate 50 max_tx_rate 200")
    two.set("min_tx_rate 100")
    assert [vf["rate"]["min_tx"] for vf in told(guest)] == [50, 100]
    assert one.reaches(two.address)
    one.set("min_tx_rate 0 max_tx_rate 0")
    two.set("min_tx_rate 0")
    assert [vf["rate"]["min_tx"] for vf in told(guest)] == [0, 0]


def test_counts_of_each_function(guest, both):
    one, two = both

    def counts():
        (link,) = json.loads(run(guest, "ip -s -j link show eth0"))
        return [vf["stats"] for vf in link["vfinfo_list"]]

    before = counts()
    assert one.reaches(two.address, times=5)
    after = counts()
    for old, new in zip(before, after):
        assert new["tx"]["tx_packets"] - old["tx"]["tx_packets"] >= 5
        assert new["rx"]["packets"] - old["rx"]["packets"] >= 5


def test_vepa_sends_everything_to_the_cable(guest, both):
    """The peer behind the cable does not send it back, so virtual functions are apart."""
    one, two = both
    run(guest, "bridge link set dev eth0 hwmode vepa")
    assert "hwmode VEPA" in run(guest, "bridge link show dev eth0")
    assert one.reaches(PEER)
    assert not one.reaches(two.address)
    run(guest, "bridge link set dev eth0 hwmode veb")
    assert "hwmode VEB" in run(guest, "bridge link show dev eth0")
    assert one.reaches(two.address)


def test_the_drivers_self_test_passes(guest, both):
    """The loopback test sends a packet to the interface's own address (en_selftest.c)."""
    run(guest, "ethtool -t eth0")
    both[0].run(f"ethtool -t {both[0].name}")


def test_refused_settings(guest, both):
    """The number of vectors of a function, and a switch of two ports, which one port has not."""
    bind(guest, 1, "unbind")
    refused = guest.run(f"/bin/echo 4 > {PF}/virtfn1/sriov_vf_msix_count")
    assert "not supported" in refused.stderr
    bind(guest, 1)
    both[1].take()
    if run(guest, f"devlink dev param show {DEV} | grep -c esw_multiport || true").strip() != "0":
        set_it = f"devlink dev param set {DEV} name esw_multiport value true cmode runtime"
        guest.run(set_it)  # refused, or from 7.2 on without effect
        said = run(guest, f"devlink dev param show {DEV} name esw_multiport")
        assert "value false" in said


def test_they_go_and_come(guest, both):
    for vf in both:
        run(guest, f"ip netns del {vf.space}; sleep 0.5")
    enable(guest, 0)
    assert "vf 0" not in run(guest, "ip link show eth0")
    enable(guest, 2)
    for vf in both:
        vf.start()
    assert both[0].reaches(both[1].address)
