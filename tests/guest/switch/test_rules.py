"""Rules of tc flower between representors and the uplink: the switch alone carries them out."""

from __future__ import annotations

import json
import re

import pytest
from helpers.guest.guests import run
from helpers.guest.psample import COUNT_SAMPLES
from helpers.guest.sub_functions import (
    clear,
    cross,
    in_hardware,
    redirect,
    seen,
    track_connections,
)

pytestmark = [pytest.mark.guest, pytest.mark.slow]


def test_rules_redirect(guest, pair):
    cross(guest, pair)
    one, two = pair
    one.reaches(two.address)
    for sf in pair:
        assert in_hardware(guest, sf.representor, 3) >= 3
    clear(guest, one.representor, two.representor)


@pytest.mark.parametrize(("action", "sees"), [("ok", 3), ("trap", 3), ("drop", 0)])
def test_verdicts(guest, pair, action, sees):
    """What is let pass ends with the representor, as a trapped packet does; neither goes on."""
    one, two = pair
    cross(guest, pair)
    one.reaches(two.address)
    rule = "protocol ip prio 1 flower skip_sw ip_proto icmp"
    clear(guest, one.representor)
    redirect(guest, one.representor, two.representor, "", "protocol all prio 9 flower skip_sw")
    run(guest, f"tc filter add dev {one.representor} ingress {rule} action {action}")
    before = seen(guest, one.representor)
    one.run(f"sh -c '! ping -q -c 3 -i 0.2 -W 1 {two.address}'")
    assert seen(guest, one.representor) - before == sees
    assert in_hardware(guest, one.representor, 3) >= 3
    clear(guest, one.representor, two.representor)


def test_types_of_icmp(guest, pair):
    """One of them may answer, and not ask."""
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    rule = "protocol ip prio 1 flower skip_sw ip_proto icmp type 8 code 0"
    redirect(guest, one.representor, two.representor, "", "protocol all prio 9 flower skip_sw")
    run(guest, f"tc filter add dev {one.representor} ingress {rule} action drop")
    two.reaches(one.address)
    one.run(f"sh -c '! ping -q -c 2 -W 1 {two.address}'")
    clear(guest, one.representor, two.representor)


def test_tags_on_the_way_to_the_cable(guest, pair):
    one, _ = pair
    run(guest, "ethtool -K eth0 hw-tc-offload on")
    redirect(guest, one.representor, "eth0", "action vlan push id 7")
    redirect(
        guest,
        "eth0",
        one.representor,
        "vlan_id 7 action vlan pop",
        "protocol 802.1q flower skip_sw",
    )
    run(guest, "ip -n peer link add link eth1 name v7 type vlan id 7")
    run(guest, "ip -n peer address add 10.0.7.9/24 dev v7; ip -n peer link set v7 up")
    one.run(f"ip address add 10.0.7.1/24 dev {one.name}")
    one.reaches("10.0.7.9")
    assert in_hardware(guest, "eth0", 3) >= 3
    assert in_hardware(guest, one.representor, 3) >= 3
    run(guest, "ip -n peer link del v7")
    clear(guest, one.representor, "eth0")


def test_a_tag_becomes_another(guest, pair):
    numbers = dict(zip(pair, (7, 9)))
    for (sf, vid), (other, new) in zip(numbers.items(), reversed(numbers.items())):
        change = f"vlan_id {vid} action vlan modify id {new} pipe"
        rule = "protocol 802.1q flower skip_sw"
        redirect(guest, sf.representor, other.representor, change, rule)
        sf.run(f"ip link add link {sf.name} name tagged type vlan id {vid}")
        sf.run(f"ip address add 10.0.7.{vid}/24 dev tagged")
        sf.run("ip link set tagged up")
    pair[0].reaches("10.0.7.9")
    for sf in pair:
        assert in_hardware(guest, sf.representor, 3) >= 3
        sf.run("ip link del tagged")
    clear(guest, *(sf.representor for sf in pair))


def test_headers_change_and_mirrors(guest, pair):
    one, two = pair
    redirect(guest, one.representor, two.representor, "action mirred egress mirror dev eth0 pipe")
    rule = "protocol ip prio 1 flower skip_sw ip_proto icmp"
    change = "action pedit ex munge ip ttl set 33 pipe csum ip pipe"
    redirect(guest, two.representor, one.representor, change, rule)
    redirect(guest, two.representor, one.representor, "", "protocol arp prio 2 flower skip_sw")
    assert "ttl=33" in one.run(f"ping -c 2 -W 20 {two.address}")
    clear(guest, one.representor, two.representor)


def test_police_drops_what_is_above_a_rate(guest, pair):
    """A meter gives each packet a colour, and what is red is dropped; tc counts both."""
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    rule = "protocol ip prio 1 flower skip_sw ip_proto udp"
    police = "action police pkts_rate 50 pkts_burst 20 conform-exceed drop/pipe"
    redirect(guest, one.representor, two.representor, police, rule)
    redirect(guest, one.representor, two.representor, "", "protocol all prio 2 flower skip_sw")
    one.reaches(two.address)
    before = int(two.run(f"cat /sys/class/net/{two.name}/statistics/rx_packets"))
    send = "import socket; s = socket.socket(2, 2)\nfor _ in range(400): s.sendto(bytes(64), "
    one.run(f"python3 -c '{send}(\"{two.address}\", 9))'")
    came = int(two.run(f"cat /sys/class/net/{two.name}/statistics/rx_packets")) - before
    assert 20 <= came < 350
    assert in_hardware(guest, one.representor, 20) >= 20
    said = run(guest, f"sleep 2; tc -s filter show dev {one.representor} ingress")
    dropped = int(re.search(r"police.*?dropped (\d+)", said, re.DOTALL)[1])
    assert dropped >= 50
    clear(guest, one.representor, two.representor)


def test_police_holds_a_stream_down(guest, pair):
    """Large sends are metered by the packet; TCP finds the rate."""
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    police = "action police rate 20mbit burst 100k conform-exceed drop/pipe"
    redirect(guest, one.representor, two.representor, police)
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 5 -J"))
    assert 2e6 < said["end"]["sum_received"]["bits_per_second"] < 25e6
    clear(guest, one.representor, two.representor)


def test_a_police_of_several_rules(guest, pair):
    """An action of its own, which tc offloads before any rule has it."""
    police = "police pkts_rate 50 pkts_burst 20 conform-exceed drop/pipe index 7"
    run(guest, f"tc actions add action {police} skip_sw")
    assert "in_hw_count 1" in run(guest, "tc -s actions list action police")
    cross(guest, pair)
    clear(guest, *(sf.representor for sf in pair))
    for sf, other in (pair, reversed(pair)):
        redirect(guest, sf.representor, other.representor, "action police index 7")
    one, two = pair
    one.reaches(two.address)
    clear(guest, one.representor, two.representor)
    # Rules let go of it some time after they are deleted (net/sched/cls_flower.c: tcf_queue_work).
    run(guest, "until tc actions list action police | grep -q 'bind 0'; do sleep 0.1; done")
    run(guest, "tc actions flush action police")


def test_samples_come_to_the_kernel(guest, pair):
    """Each second packet of a flow comes to the kernel as well, which hands it to psample."""
    one, two = pair
    cross(guest, pair)
    clear(guest, one.representor)
    rule = "protocol ip prio 1 flower skip_sw ip_proto icmp"
    redirect(guest, one.representor, two.representor, "action sample rate 2 group 5", rule)
    redirect(guest, one.representor, two.representor, "", "protocol all prio 2 flower skip_sw")
    run(guest, f"cat >/tmp/samples.py <<'EOF'{COUNT_SAMPLES}EOF")
    run(
        guest, "python3 /tmp/samples.py 20 >/tmp/samples & until grep -q . /tmp/samples; do :; done"
    )
    one.run(f"ping -c 10 -i 0.2 -W 20 {two.address}")
    said = run(guest, "until [ $(wc -l </tmp/samples) = 2 ]; do sleep 0.2; done; cat /tmp/samples")
    assert said.split() == ["ready", "5"]
    clear(guest, one.representor, two.representor)


def test_connections_are_tracked(guest, pair):
    """What belongs to an established connection passes without the kernel."""
    track_connections(guest, pair)
