"""Open vSwitch, whose flows and internal ports the switch carries out (core/en/tc/int_port.c)."""

from __future__ import annotations

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import PEER, clear, in_hardware, redirect, seen

pytestmark = [pytest.mark.guest, pytest.mark.slow]

HERE = "10.0.9.100"
"""The bridge's own."""
OPTIONS = "other_config:hw-offload=true other_config:max-idle=60000"
UP = f"""set -e
modprobe openvswitch
ovs="/usr/share/openvswitch/scripts/ovs-ctl --system-id=random --no-mlockall"
$ovs start
ovs-vsctl --no-wait set Open_vSwitch . {OPTIONS}
$ovs restart # hw-offload is read at the start
ovs-vsctl add-br br0
ip link set br0 up
"""
DOWN = """ovs-vsctl del-br br0
/usr/share/openvswitch/scripts/ovs-ctl stop
modprobe -r vport-vxlan openvswitch 2>/dev/null
true"""


@pytest.fixture
def bridge(guest, pair):
    """A bridge with the cable; its address is on its internal port."""
    run(guest, f"({UP}) >/dev/null 2>&1 </dev/null")
    run(guest, f"ovs-vsctl add-port br0 eth0; ip address add {HERE}/24 dev br0")
    yield
    run(guest, f"({DOWN}) >/dev/null 2>&1")


@pytest.mark.usefixtures("bridge")
def test_an_internal_port(guest, pair):
    """What is for the bridge's own address comes to its internal port, not by the representor."""
    one, two = pair
    for sf in pair:
        run(guest, f"ovs-vsctl add-port br0 {sf.representor}")
    one.reaches(HERE)
    one.reaches(two.address)
    one.reaches(PEER)
    run(guest, f"ping -c 3 -i 0.2 -W 20 {PEER}")
    before = seen(guest, one.representor)
    for address in (HERE, two.address, PEER):
        one.run(f"ping -q -c 20 -i 0.05 -W 20 {address}")
    assert seen(guest, one.representor) - before < 20
    said = run(guest, "ovs-appctl dpctl/dump-flows -m type=offloaded")
    assert "in_port(br0)" in said
    assert f"in_port({one.representor})" in said


@pytest.mark.usefixtures("bridge")
def test_a_tunnel_by_an_internal_port(guest, pair):
    """A packet in its tunnel begins anew, as one of the bridge's own, for which there is a flow."""
    one, _ = pair
    run(guest, "ip address add 10.9.9.1/24 dev br0; ip -n peer address add 10.9.9.2/24 dev eth1")
    run(guest, "ip link add t0 type vxlan dstport 4789 external; ip link set t0 up")
    run(guest, "ip -n peer link add tp type vxlan id 42 remote 10.9.9.1 dstport 4789")
    run(guest, "ip -n peer link set tp up; ip -n peer address add 10.0.5.9/24 dev tp")
    run(guest, "ping -c 3 -i 0.2 -W 20 10.9.9.2")
    one.run(f"ip address add 10.0.5.1/24 dev {one.name}")
    into = "src_ip 10.9.9.1 dst_ip 10.9.9.2 id 42 dst_port 4789 nocsum"
    redirect(guest, one.representor, "t0", f"action tunnel_key set {into} pipe")
    out = "enc_dst_ip 10.9.9.1 enc_src_ip 10.9.9.2 enc_key_id 42 enc_dst_port 4789"
    redirect(guest, "t0", one.representor, f"{out} action tunnel_key unset", "protocol all flower")
    one.reaches("10.0.5.9")
    before = seen(guest, one.representor), seen(guest, "eth0")
    one.run("ping -q -c 40 -i 0.05 -W 20 10.0.5.9")
    after = seen(guest, one.representor), seen(guest, "eth0")
    assert all(then - now < 20 for now, then in zip(before, after))
    assert in_hardware(guest, one.representor, 40) >= 40
    clear(guest, one.representor)
    run(
        guest, "ip link del t0; ip -n peer link del tp; ip -n peer address del 10.9.9.2/24 dev eth1"
    )
