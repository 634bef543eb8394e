"""Packets of sub-functions that the switch puts into tunnels, and takes out of them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import clear, in_hardware, redirect, seen

pytestmark = [pytest.mark.guest, pytest.mark.slow]

INSIDE = "10.0.5.9"
"""The peer's address at its end of a tunnel."""


class Kind(NamedTuple):
    """A kind of tunnel."""

    interface: str
    """As ``ip link`` names it."""
    port: str = ""
    six: bool = False
    """Whether it goes over IPv6."""


KINDS = {
    "vxlan": Kind("vxlan dstport 4789", "4789"),
    "vxlan over IPv6": Kind("vxlan dstport 4789", "4789", six=True),
    "geneve": Kind("geneve dstport 6081", "6081"),
    "geneve over IPv6": Kind("geneve dstport 6081", "6081", six=True),
    "gretap": Kind("gretap"),
}


@pytest.fixture
def ends(guest, pair):
    """Addresses of the uplink's interface and of the peer, which tunnels are between."""
    both = [("", "eth0", 1), ("-n peer", "eth1", 2)]
    for inside, device, end in both:
        run(guest, f"ip {inside} address add 10.9.9.{end}/24 dev {device}")
        run(guest, f"ip {inside} address add fd00::{end}/64 dev {device} nodad")
    run(guest, "ping -c 1 -W 20 10.9.9.2; ping -c 1 -W 20 fd00::2")
    yield
    for inside, device, end in both:
        run(guest, f"ip {inside} address del 10.9.9.{end}/24 dev {device}")
        run(guest, f"ip {inside} address del fd00::{end}/64 dev {device}")


@contextmanager
def tunnel(guest, sf, kind, there=None):
    """A tunnel of this kind, which ends whatever becomes of it."""
    made = Tunnel(guest, sf, kind, there)
    try:
        yield made
    finally:
        made.end()


class Tunnel:
    """From a sub-function by rules of tc to the peer's interface ``tp``; its key is 42."""

    def __init__(self, guest, sf, kind, there=None):
        """``there`` is the peer's outer address, when it is another one than that of its cable."""
        self.guest, self.sf = guest, sf
        here, far = ("fd00::1", "fd00::2") if kind.six else ("10.9.9.1", "10.9.9.2")
        run(guest, f"ip link add t0 type {kind.interface} external; ip link set t0 up")
        self._peer(kind, here, far)
        sf.run(f"ip address add 10.0.5.1/24 dev {sf.name}")
        port = f"dst_port {kind.port}" if kind.port else ""
        into = f"src_ip {here} dst_ip {there or far} id 42 {port} nocsum"
        for number, protocol in enumerate(("ip", "arp"), 1):
            rule = f"protocol {protocol} prio {number} flower skip_sw"
            redirect(guest, sf.representor, "t0", f"action tunnel_key set {into} pipe", rule)
        out = f"enc_dst_ip {here} enc_src_ip {far} enc_key_id 42 enc_{port}".removesuffix("enc_")
        # The kernel has no skip_sw for the rules of a tunnel's interface.
        rule = "protocol all flower"
        redirect(guest, "t0", sf.representor, f"{out} action tunnel_key unset", rule)

    def _peer(self, kind, here, far):
        name, _, more = kind.interface.partition(" ")
        ends = f"id 42 remote {here} {more}"
        if kind.six:
            # As on a real adapter, UDP has no checksum in what the switch puts around a packet.
            ends += " udp6zerocsumrx"
        if name == "gretap":
            ends = f"local {far} remote {here} key 42"
        run(self.guest, f"ip -n peer link add tp type {name} {ends}")
        run(
            self.guest,
            f"ip -n peer link set tp up mtu 1400; ip -n peer address add {INSIDE}/24 dev tp",
        )

    def reaches(self):
        self.sf.reaches(INSIDE)

    def fails(self):
        self.sf.run(f"sh -c '! ping -q -c 2 -W 1 {INSIDE}'")

    def end(self):
        clear(self.guest, self.sf.representor)
        run(self.guest, "ip link del t0; ip -n peer link del tp")


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
