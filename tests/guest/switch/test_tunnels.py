"""Packets of sub-functions that the switch puts into tunnels, and takes out of them."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import clear, in_hardware, redirect, seen
from helpers.guest.tunnels import INSIDE, KINDS, tunnel, tunnel_ends

pytestmark = [pytest.mark.guest, pytest.mark.slow]


@pytest.fixture
def ends(guest, pair):
    """Addresses of the uplink's interface and of the peer, which tunnels are between."""
    with tunnel_ends(guest):
        yield


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("kind", KINDS)
def test_a_tunnel(guest, pair, kind):
    """Both ways; the kernel sees none of the packets inside."""
    one, _ = pair
    with tunnel(guest, one, KINDS[kind]) as it:
        it.reaches()
        before = seen(guest, one.representor)
        one.run(f"ping -q -c 20 -i 0.05 -W 20 {INSIDE}")
        assert seen(guest, one.representor) - before < 10
        assert in_hardware(guest, "t0", 20) >= 20
        assert in_hardware(guest, one.representor, 20) >= 20
        if kind == "vxlan":
            run(guest, "ip netns exec peer iperf3 -s -D -1")
            said = json.loads(one.run(f"iperf3 -c {INSIDE} -t 2 -J"))
            assert said["end"]["sum_received"]["bytes"] > 1 << 16


@pytest.mark.usefixtures("ends")
def test_two_rules_of_a_tunnel_follow_its_neighbour(guest, pair):
    """To an address behind a gateway, whose MAC address changes."""
    route = "ip route replace 10.9.8.0/24 dev eth0 via"
    mac = run(guest, "ip netns exec peer cat /sys/class/net/eth1/address").strip()
    run(guest, f"ip -n peer address add 10.9.8.2/32 dev eth1; {route} 10.9.9.2")
    with tunnel(guest, pair[0], KINDS["vxlan"], "10.9.8.2") as it:
        it.reaches()
        run(guest, "ip neigh replace 10.9.9.2 lladdr 02:00:00:00:77:77 dev eth0; sleep 1")
        it.fails()
        run(guest, f"ip neigh replace 10.9.9.2 lladdr {mac} dev eth0; sleep 1")
        it.reaches()
    run(guest, "ip neigh del 10.9.9.2 dev eth0; ip route del 10.9.8.0/24")
    run(guest, "ip -n peer address del 10.9.8.2/32 dev eth1")


OPTION = "0102:80:00010002"
"""Class, type and data, as OVN's logical ports."""


@pytest.mark.usefixtures("ends")
def test_an_option_of_geneve(guest, pair):
    """It is in what leaves by the tunnel; of what comes, the adapter ends what has this data."""
    one, _ = pair
    for space, name in (("", "t0"), ("-n peer", "tp")):
        run(guest, f"ip {space} link add {name} type geneve dstport 6081 external")
        run(guest, f"ip {space} link set {name} up mtu 1400")
    mac = run(guest, "ip netns exec peer cat /sys/class/net/tp/address").strip()
    one.run(f"ip address add 10.0.5.1/24 dev {one.name}")
    one.run(f"ip neigh add {INSIDE} lladdr {mac} dev {one.name}")
    run(guest, f"ip -n peer address add {INSIDE}/24 dev tp")
    run(guest, f"ip -n peer neigh add 10.0.5.1 lladdr {one.mac} dev tp")
    answer_with(guest, OPTION)
    into = f"src_ip 10.9.9.1 dst_ip 10.9.9.2 id 42 dst_port 6081 geneve_opts {OPTION} nocsum"
    rule = "protocol ip flower skip_sw"
    redirect(guest, one.representor, "t0", f"action tunnel_key set {into} pipe", rule)
    out = "enc_dst_ip 10.9.9.1 enc_src_ip 10.9.9.2 enc_key_id 42 enc_dst_port 6081"
    out += f" geneve_opts {OPTION}/ffff:ff:ffffffff"
    redirect(guest, "t0", one.representor, f"{out} action tunnel_key unset", "protocol ip flower")
    one.reaches(INSIDE)
    before = seen(guest, one.representor)
    one.run(f"ping -q -c 20 -i 0.05 -W 20 {INSIDE}")
    assert seen(guest, one.representor) - before < 10
    assert in_hardware(guest, "t0", 20) >= 20
    answer_with(guest, "0102:80:00010003")
    one.run(f"sh -c '! ping -q -c 2 -W 1 {INSIDE}'")
    clear(guest, one.representor)
    run(guest, "ip link del t0; ip -n peer link del tp")


def answer_with(guest, option):
    """The peer puts its packets to the sub-function into the tunnel with this option."""
    tc = "ip netns exec peer tc"
    into = f"src_ip 10.9.9.2 dst_ip 10.9.9.1 id 42 dst_port 6081 geneve_opts {option} nocsum"
    run(guest, f"{tc} qdisc replace dev tp clsact; {tc} filter del dev tp egress")
    run(
        guest,
        f"{tc} filter add dev tp egress protocol ip flower skip_hw action tunnel_key set {into}",
    )


@pytest.mark.usefixtures("ends")
def test_mpls_over_udp(guest, pair):
    """IP packets behind a label; the switch takes and gives their Ethernet headers."""
    one, _ = pair
    for space, name in (("", "t0"), ("-n peer", "tp")):
        run(guest, f"ip {space} link add {name} type bareudp dstport 6635 ethertype mpls_uc")
        run(guest, f"ip {space} link set {name} up mtu 1400")
    one.run(f"ip address add 10.0.5.1/24 dev {one.name}")
    one.run(f"ip neigh add {INSIDE} lladdr 02:00:00:00:77:09 dev {one.name}")
    run(guest, f"ip -n peer address add {INSIDE}/24 dev tp; ip netns exec peer {MPLS_IN}")
    run(guest, f"ip netns exec peer {MPLS_OUT}")
    into = "action vlan pop_eth pipe action mpls push protocol mpls_uc label 555 ttl 64 pipe"
    into += (
        " action tunnel_key set src_ip 10.9.9.1 dst_ip 10.9.9.2 dst_port 6635 ttl 64 nocsum pipe"
    )
    redirect(guest, one.representor, "t0", into, "protocol ip flower skip_sw")
    out = "enc_dst_ip 10.9.9.1 enc_src_ip 10.9.9.2 enc_dst_port 6635 mpls_label 555"
    out += " action tunnel_key unset pipe action mpls pop protocol ip pipe"
    out += f" action vlan push_eth dst_mac {one.mac} src_mac 02:00:00:00:77:09 pipe"
    redirect(guest, "t0", one.representor, out, "protocol mpls_uc flower")
    one.reaches(INSIDE)
    before = seen(guest, one.representor)
    one.run(f"ping -q -c 20 -i 0.05 -W 20 {INSIDE}")
    assert seen(guest, one.representor) - before < 10
    assert in_hardware(guest, "t0", 20) >= 20
    assert in_hardware(guest, one.representor, 20) >= 20
    clear(guest, one.representor)
    run(guest, "ip link del t0; ip -n peer link del tp")


MPLS_IN = """sh -ec '
tc qdisc add dev tp clsact
tc filter add dev tp ingress protocol mpls_uc flower skip_hw action mpls pop protocol ip
'"""
MPLS_OUT = """tc filter add dev tp egress protocol ip flower skip_hw \
action mpls push protocol mpls_uc label 555 ttl 64 pipe \
action tunnel_key set src_ip 10.9.9.2 dst_ip 10.9.9.1 dst_port 6635 ttl 64 nocsum"""
"""What the peer's kernel does at its end of the tunnel."""
