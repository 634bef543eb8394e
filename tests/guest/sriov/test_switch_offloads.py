"""What the switch carries out between virtual functions: bridges, rules of tc, groups of rates."""

from __future__ import annotations

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import DEV, PEER
from helpers.guest.sub_functions import bridged, clear, cross, in_hardware, redirect, seen

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

COUNT = 40
FEW = 10
"""Of so many packets the kernel sees fewer than this: those before the switch has learned."""
NO_SHARES = " ".join(f"{number}:0" for number in range(8))


def ping(vf, address):
    vf.run(f"ping -q -c {COUNT} -i 0.02 -W 20 {address}")


def test_a_bridge_is_carried_out(guest, pair):
    one, two = pair
    bridged(guest, one.representor, two.representor, "eth0")
    for address in (two.address, PEER):
        assert one.reaches(address)
    run(guest, f"until bridge fdb show br br0 | grep -q '{one.mac} .*offload'; do sleep 0.2; done")
    before = seen(guest, one.representor)
    for address in (two.address, PEER):
        ping(one, address)
    assert seen(guest, one.representor) - before < FEW
    run(guest, "ip link del br0")


def test_a_rule_from_one_to_the_other(guest, rules):
    one, two = rules
    cross(guest, rules)
    assert one.reaches(two.address)
    before = seen(guest, one.representor)
    ping(one, two.address)
    assert seen(guest, one.representor) == before
    for vf in rules:
        assert in_hardware(guest, vf.representor, COUNT) >= COUNT
    clear(guest, one.representor, two.representor)


def test_a_rule_to_the_cable(guest, rules):
    one, _ = rules
    redirect(guest, one.representor, "eth0")
    redirect(guest, "eth0", one.representor)
    assert one.reaches(PEER)
    before = seen(guest, one.representor)
    ping(one, PEER)
    assert seen(guest, one.representor) == before
    assert in_hardware(guest, "eth0", COUNT) >= COUNT
    clear(guest, one.representor, "eth0")


def test_shares_of_a_rate(guest, pair):
    rate = "devlink port function rate"
    for vf, share in zip(pair, ("100mbit", "200mbit")):
        run(guest, f"{rate} set {vf.port} tx_share {share}")
    said = [run(guest, f"{rate} show {vf.port}") for vf in pair]
    assert "tx_share 100Mbit" in said[0]
    assert "tx_share 200Mbit" in said[1]
    for vf in pair:
        run(guest, f"{rate} set {vf.port} tx_share 0")


def test_a_group_of_rates(guest, pair):
    rate = "devlink port function rate"
    run(guest, f"{rate} add {DEV}/pods tx_share 10mbit tx_max 100mbit")
    for vf in pair:
        run(guest, f"{rate} set {vf.port} tx_max 80mbit parent pods")
        assert "tx_max 80Mbit parent pods" in run(guest, f"{rate} show {vf.port}")
    assert "tx_share 10Mbit tx_max 100Mbit" in run(guest, f"{rate} show {DEV}/pods")
    bridged(guest, *(vf.representor for vf in pair))
    assert pair[0].reaches(pair[1].address)
    run(guest, "ip link del br0")
    for vf in pair:
        run(guest, f"{rate} set {vf.port} noparent")
        run(guest, f"{rate} set {vf.port} tx_max 0")
    run(guest, f"{rate} del {DEV}/pods")


def test_rates_by_traffic_class(guest, pair):
    """The driver makes an arbiter with a queue of each class (esw/qos.c)."""
    rate, one = "devlink port function rate", pair[0]
    if guest.run("devlink port function rate help 2>&1 | grep -q tc-bw").status:
        pytest.skip("the guest's devlink has no tc-bw")
    shares = "0:20 1:0 2:0 3:0 4:0 5:80 6:0 7:0"
    run(guest, f"{rate} set {one.port} tx_max 8mbit tc-bw {shares}")
    assert "tx_max 8Mbit tc_0 bw 20 tc_5 bw 80" in run(guest, f"{rate} show {one.port}")
    bridged(guest, *(vf.representor for vf in pair))
    assert one.reaches(pair[1].address)
    run(guest, "ip link del br0")
    run(guest, f"{rate} set {one.port} tx_max 0 tc-bw {NO_SHARES}")
    assert "bw" not in run(guest, f"{rate} show {one.port}")
