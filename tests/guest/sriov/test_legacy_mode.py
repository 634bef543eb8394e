"""Virtual functions in legacy mode: `ip link set eth0 vf`, as an administrator uses it."""

from __future__ import annotations

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import HERE, PEER, Vf, reaches, told, with_peer
from helpers.guest.virtual_functions import enable

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

VLAN_PEER = "10.5.7.200"


@pytest.fixture(scope="module")
def guest(lab, suite):
    """Its first function has virtual ones; the second one, in a namespace, is behind the cable."""
    with with_peer(lab, suite) as guest:
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


def test_they_go_and_come(guest, both):
    for vf in both:
        run(guest, f"ip netns del {vf.space}; sleep 0.5")
    enable(guest, 0)
    assert "vf 0" not in run(guest, "ip link show eth0")
    enable(guest, 2)
    for vf in both:
        vf.start()
    assert both[0].reaches(both[1].address)
