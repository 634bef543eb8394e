"""Packets of sub-functions that the switch puts into tunnels, and takes out of them."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import clear, in_hardware, redirect

pytestmark = [pytest.mark.guest, pytest.mark.slow]


def test_a_tunnel(guest, pair):
    """Packets go into VXLAN by the switch, and come out of it there."""
    one, _ = pair
    vtep = "id 42 dst_port 4789"
    run(guest, "ip address add 10.9.9.1/24 dev eth0; ip -n peer address add 10.9.9.2/24 dev eth1")
    run(guest, "ip link add vx0 type vxlan dstport 4789 external; ip link set vx0 up")
    run(guest, "ip -n peer link add vxp type vxlan id 42 remote 10.9.9.1 dstport 4789 dev eth1")
    run(guest, "ip -n peer link set vxp up; ip -n peer address add 10.0.5.9/24 dev vxp")
    one.run(f"ip address add 10.0.5.1/24 dev {one.name}")
    run(guest, "ping -c 1 -W 20 10.9.9.2")
    into = f"action tunnel_key set src_ip 10.9.9.1 dst_ip 10.9.9.2 {vtep} nocsum pipe"
    redirect(guest, one.representor, "vx0", into)
    out = "enc_src_ip 10.9.9.2 enc_dst_ip 10.9.9.1 enc_key_id 42 enc_dst_port 4789"
    # The kernel has no skip_sw for the rules of a tunnel's interface.
    redirect(guest, "vx0", one.representor, f"{out} action tunnel_key unset", "protocol all flower")
    one.reaches("10.0.5.9")
    run(guest, "ip netns exec peer iperf3 -s -D -1")
    said = json.loads(one.run("iperf3 -c 10.0.5.9 -t 2 -J"))
    assert said["end"]["sum_received"]["bytes"] > 1 << 16
    assert in_hardware(guest, "vx0") >= 3
    assert in_hardware(guest, one.representor) >= 3
    clear(guest, one.representor)
    run(guest, "ip link del vx0; ip -n peer link del vxp; ip address del 10.9.9.1/24 dev eth0")
