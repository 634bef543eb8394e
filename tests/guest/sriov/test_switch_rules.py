"""Rules of tc flower between representors of virtual functions, the cable and tunnels.

Debian builds mlx5_core with CONFIG_MLX5_CLS_ACT for 6.1 only; other kernels skip these tests.
"""

from __future__ import annotations

import re

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import DEV, PEER, with_peer
from helpers.guest.psample import COUNT_SAMPLES
from helpers.guest.sub_functions import clear, cross, in_hardware, on, redirect, seen
from helpers.guest.tunnels import INSIDE, KINDS, tunnel, tunnel_ends

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

NO_RUNNING_AHEAD = ("-global", "vfio-user-pci.x-no-posted-writes=on")
"""Arguments of QEMU, for rules with meters: see tests/guest/switch/conftest.py."""
ICMP = "protocol ip prio 1 flower skip_sw ip_proto icmp"
OTHERS = "protocol all prio 9 flower skip_sw"
COUNT = 20
VLAN = "10.0.8"
SEND = "import socket; s = socket.socket(2, 2)\nfor _ in range(400): s.sendto(bytes(64), "


@pytest.fixture(autouse=True)
def no_rules(guest):
    """No rule outlives its test."""
    yield
    run(
        guest,
        "for q in $(tc qdisc show ingress | grep -o 'dev [^ ]*' | cut -d' ' -f2); do"
        " tc qdisc del dev $q ingress; done",
    )


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    with with_peer(lab, suite, qemu_arguments=NO_RUNNING_AHEAD, **kernel) as guest:
        yield guest


def ping(vf, address, more=""):
    return vf.run(f"ping -c {COUNT} -i 0.05 -W 20 {more} {address}")


def received(vf):
    return int(vf.run(f"cat /sys/class/net/{vf.name}/statistics/rx_packets"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tunnel_of_a_virtual_function(guest, rules, kind):
    """Both ways; the kernel sees none of the packets inside."""
    one, _ = rules
    with tunnel_ends(guest), tunnel(guest, one, KINDS[kind]) as it:
        it.reaches()
        before = seen(guest, one.representor)
        ping(one, INSIDE)
        assert seen(guest, one.representor) - before < COUNT // 2
        assert in_hardware(guest, "t0", COUNT) >= COUNT
        assert in_hardware(guest, one.representor, COUNT) >= COUNT


def test_a_tag_on_the_way_to_the_cable(guest, rules):
    one, _ = rules
    redirect(guest, one.representor, "eth0", "action vlan push id 7")
    tagged = "protocol 802.1q flower skip_sw"
    redirect(guest, "eth0", one.representor, "vlan_id 7 action vlan pop", tagged)
    run(guest, "ip -n peer link add link eth1 name v7 type vlan id 7")
    run(guest, f"ip -n peer address add {VLAN}.9/24 dev v7; ip -n peer link set v7 up")
    one.run(f"ip address replace {VLAN}.1/24 dev {one.name}")
    ping(one, f"{VLAN}.9")
    assert in_hardware(guest, "eth0", COUNT) >= COUNT
    assert in_hardware(guest, one.representor, COUNT) >= COUNT
    run(guest, "ip -n peer link del v7")
    clear(guest, one.representor, "eth0")


def test_a_dropped_packet_and_a_trapped_one(guest, rules):
    one, two = rules
    for action, sees in (("drop", 0), ("trap", 3)):
        cross(guest, rules)
        clear(guest, one.representor)
        redirect(guest, one.representor, two.representor, "", OTHERS)
        one.run(f"ping -c 1 -W 20 {two.address}")
        run(guest, f"tc filter add dev {one.representor} ingress {ICMP} action {action}")
        before = seen(guest, one.representor)
        one.run(f"sh -c '! ping -q -c 3 -i 0.2 -W 1 {two.address}'")
        assert seen(guest, one.representor) - before == sees
        clear(guest, one.representor, two.representor)


def test_a_header_is_rewritten_and_a_packet_mirrored(guest, rules):
    one, two = rules
    before = mirrored(guest)
    redirect(guest, one.representor, two.representor, "action mirred egress mirror dev eth0 pipe")
    change = "action pedit ex munge ip ttl set 33 pipe csum ip pipe"
    redirect(guest, two.representor, one.representor, change, ICMP)
    redirect(guest, two.representor, one.representor, "", OTHERS)
    assert ping(one, two.address).count("ttl=33") == COUNT
    assert mirrored(guest) - before >= COUNT
    clear(guest, one.representor, two.representor)


def mirrored(guest):
    """Packets that have arrived behind the cable, whatever their address."""
    said = run(guest, "ip netns exec peer ethtool -S eth1")
    return int(re.search(r"rx_packets_phy: (\d+)", said)[1])


def test_a_police_of_a_rule_drops_above_its_rate(guest, rules):
    one, two = rules
    cross(guest, rules)
    clear(guest, one.representor)
    police = "action police pkts_rate 50 pkts_burst 20 conform-exceed drop/pipe"
    udp = "protocol ip prio 1 flower skip_sw ip_proto udp"
    redirect(guest, one.representor, two.representor, police, udp)
    redirect(guest, one.representor, two.representor, "", OTHERS)
    one.run(f"ping -c 1 -W 20 {two.address}")
    before = received(two)
    one.run(f"python3 -c '{SEND}(\"{two.address}\", 9))'")
    assert 20 <= received(two) - before < 350
    assert in_hardware(guest, one.representor, 20) >= 20
    clear(guest, one.representor, two.representor)


def test_a_police_of_a_representor_is_its_vports_rate(guest, rules):
    """matchall: what the function sends (esw/qos.c: mlx5_esw_qos_modify_vport_rate)."""
    one, two = rules
    cross(guest, rules)
    clear(guest, one.representor)
    redirect(guest, one.representor, two.representor, "", "protocol all prio 9 flower skip_sw")
    two.run("iperf3 -s -D -1")
    rule = f"tc filter add dev {one.representor} ingress prio 1 matchall skip_sw"
    run(guest, f"{rule} action police rate 4mbit burst 100k conform-exceed drop/continue")
    two.run("sh -c 'until ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done'")
    said = one.run(f"iperf3 -c {two.address} -t 3 -J")
    rate = float(re.findall(r'"bits_per_second":\s*([\d.e+]+)', said)[-1])
    assert 1e5 < rate < 6e6
    clear(guest, one.representor, two.representor)


def test_samples_of_a_virtual_functions_packets(guest, rules):
    """Each second packet of a flow comes to the kernel as well, which hands it to psample."""
    one, two = rules
    cross(guest, rules)
    clear(guest, one.representor)
    sample = "action sample rate 2 group 5"
    redirect(guest, one.representor, two.representor, sample, ICMP)
    redirect(guest, one.representor, two.representor, "", OTHERS)
    run(guest, f"cat >/tmp/samples.py <<'EOF'{COUNT_SAMPLES}EOF")
    run(
        guest, "python3 /tmp/samples.py 20 >/tmp/samples & until grep -q . /tmp/samples; do :; done"
    )
    one.run(f"ping -c 10 -i 0.2 -W 20 {two.address}")
    said = run(guest, "until [ $(wc -l </tmp/samples) = 2 ]; do sleep 0.2; done; cat /tmp/samples")
    assert said.split() == ["ready", "5"]
    clear(guest, one.representor, two.representor)


def test_connections_of_virtual_functions_are_tracked(guest, rules):
    """Packets of an established connection pass without the kernel."""
    if guest.run("grep -q mlx5_tc_ct_init /proc/kallsyms").status:
        pytest.skip("the kernel's mlx5_core has no CONFIG_MLX5_TC_CT")
    one, two = rules
    for vf, other in ((one, two), (two, one)):
        rule = f"tc filter add dev {vf.representor} ingress protocol ip"
        track = "flower ct_state -trk action ct zone 5 pipe action goto chain 1"
        run(guest, f"tc qdisc replace dev {vf.representor} ingress; {rule} prio 1 chain 0 {track}")
        run(guest, f"{rule} prio 2 chain 1 flower ct_state +trk+est {on(other.representor)}")
        redirect(guest, vf.representor, other.representor, "", "protocol arp prio 9 flower")
    rule = f"tc filter add dev {one.representor} ingress protocol ip prio 1 chain 1"
    new = f"flower ct_state +trk+new action ct zone 5 commit pipe {on(two.representor)}"
    run(guest, f"{rule} {new}")
    two.run("iperf3 -s -D -1")
    two.run("sh -c 'until ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done'")
    one.run(f"iperf3 -c {two.address} -t 3")
    assert in_hardware(guest, one.representor, 10) >= 10
    clear(guest, one.representor, two.representor)


def test_functions_of_a_group_share_its_rate(guest, rules):
    rate = "devlink port function rate"
    one, two = rules
    for vf in rules:
        redirect(guest, vf.representor, "eth0")
    run(guest, "tc qdisc replace dev eth0 ingress")
    for number, vf in enumerate(rules):
        rule = f"protocol ip prio {number + 1} flower skip_sw dst_ip {vf.address}"
        run(guest, f"tc filter add dev eth0 ingress {rule} {on(vf.representor)}")
        rule = f"protocol arp prio {number + 3} flower skip_sw dst_mac {vf.mac}"
        run(guest, f"tc filter add dev eth0 ingress {rule} {on(vf.representor)}")
        run(guest, f"ip -n peer neigh replace {vf.address} lladdr {vf.mac} dev eth1")
    run(guest, f"{rate} add {DEV}/pods tx_max 4mbit")
    for vf in rules:
        run(guest, f"{rate} set {vf.port} parent pods")
        run(guest, f"ip netns exec peer iperf3 -s -D -1 -p {5201 + vf.number}")
        port = 5201 + vf.number
        run(guest, f"until ip netns exec peer ss -Hltn sport = :{port} | grep -q .; do :; done")
    jobs = " & ".join(
        f"ip netns exec {vf.space} iperf3 -c {PEER} -t 4 -J -p {5201 + vf.number} >/tmp/{vf.space}"
        for vf in rules
    )
    run(guest, f"{jobs} & wait")
    rates = [
        float(
            re.findall(r'"bits_per_second":\s*([\d.e+]+)', run(guest, f"cat /tmp/{vf.space}"))[-1]
        )
        for vf in rules
    ]
    assert all(each > 1e5 for each in rates)
    assert sum(rates) < 6e6
    for vf in rules:
        run(guest, f"{rate} set {vf.port} noparent")
        run(guest, f"ip -n peer neigh del {vf.address} dev eth1")
    run(guest, f"{rate} del {DEV}/pods")
    clear(guest, one.representor, two.representor, "eth0")
