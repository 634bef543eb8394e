"""``devlink dev eswitch``: the driver's tables between its vPorts and the cable, and back."""

from __future__ import annotations

import json
import re

import pytest
from helpers.guest.guests import FEW_KEYS, IN_PEER, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = pytest.mark.guest

DEVICES = ("connectx6dx", "connectx6dx")
HERE, THERE = "10.0.1.1", "10.0.1.2"
DEV = "pci/0000:01:00.0"
UP = two_namespaces("eth0", "eth1", HERE, THERE)
DOWN = "ip netns del peer"
LISTENS = f"{IN_PEER}ss -Hltn sport = :5201 | grep -q LISTEN"
SAYS = re.compile(
    r"Dropping C-tag|HW_VLAN CTAG FILTERING, not supported|MPFS/FDB active"
    r"|termination table is not supported"
)
"""What the driver tells of offloads that it does not have in switchdev mode, and of its tables."""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest whose first function manages a switch; the second one is elsewhere on the segment."""
    with prepared(
        lab, GuestOptions(suite=suite, devices=DEVICES, kernel_arguments=FEW_KEYS), UP, DOWN
    ) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


def mode(guest):
    return run(guest, f"devlink dev eswitch show {DEV}").split()[2]


def set_mode(guest, name):
    run(guest, f"devlink dev eswitch set {DEV} mode {name}")
    run(guest, f"ip address replace {HERE}/24 dev eth0; ip link set eth0 up")
    assert mode(guest) == name


def objects(guest):
    """How many objects of each kind the first function has, but for keys: RDMA's cache grows."""
    with Client(guest.control_socket) as control:
        found = control.status()["functions"][0]["objects"]
    return {kind: count for kind, count in found.items() if kind != "mkey"}


def test_there_and_back(guest):
    """With traffic in both modes, and nothing left of the tables afterwards."""
    assert mode(guest) == "legacy"
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")
    before = None
    for _ in range(2):
        set_mode(guest, "switchdev")
        run(guest, f"ping -c 5 -i 0.2 -W 20 {THERE}; {IN_PEER}ping -c 2 -i 0.2 -W 20 {HERE}")
        said = json.loads(run(guest, "ip -j -d link show eth0"))
        assert said[0]["phys_switch_id"]
        set_mode(guest, "legacy")
        run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")
        after = objects(guest)
        before = before or after
        changed = {kind: (before[kind], after[kind]) for kind in after}
        assert not {kind: both for kind, both in changed.items() if both[0] != both[1]}


def test_the_mode_changes_under_traffic(guest):
    """Packets come by the cable all the time, while tables begin and cease to decide about them."""
    set_mode(guest, "legacy")
    run(guest, f"{IN_PEER}ping -f -q {HERE} >/tmp/flood 2>&1 & echo $! >/tmp/flood.pid")
    for name in ("switchdev", "legacy") * 2:
        set_mode(guest, name)
    run(
        guest,
        "kill -INT $(cat /tmp/flood.pid); until grep -q received /tmp/flood; do sleep 0.1; done",
    )
    assert int(re.search(r"(\d+) received", run(guest, "cat /tmp/flood"))[1]) > 0
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")


def test_traffic_through_the_uplinks_representor(guest):
    """TCP with large sends and merged checksums passes the slow path in both directions."""
    set_mode(guest, "switchdev")
    run(guest, f"{IN_PEER}iperf3 -s -D -1; until {LISTENS}; do sleep 0.1; done")
    said = json.loads(run(guest, f"iperf3 -c {THERE} -t 2 --bidir -J"))
    for way in ("sum_received", "sum_received_bidir_reverse"):
        assert said["end"][way]["bytes"] > 1 << 16
    stats = run(guest, "ethtool -S eth0")
    assert int(re.search(r"tx_packets_phy: (\d+)", stats)[1]) > 0
    assert int(re.search(r"rx_packets_phy: (\d+)", stats)[1]) > 0
    set_mode(guest, "legacy")


def owner(guest):
    """Whose the tables of the FDB are: the driver's own (smfs), or firmware's (dmfs)."""
    said = json.loads(run(guest, f"devlink -j dev param show {DEV} name flow_steering_mode"))
    (value,) = said["param"][DEV][0]["values"]
    return value["value"]


def test_either_owns_the_tables(guest):
    """As on a real adapter, the driver does by default; firmware does when it is told so."""
    assert mode(guest) == "legacy"
    assert owner(guest) == "smfs"
    param = f"devlink dev param set {DEV} name flow_steering_mode cmode runtime value"
    assert guest.run(f"{param} hmfs").status, "not built, and unknown before 7.2"
    for name in ("dmfs", "smfs"):
        run(guest, f"{param} {name}")
        set_mode(guest, "switchdev")
        assert owner(guest) == name
        assert bool(objects(guest).get("software icm")) is (name == "smfs")
        run(guest, f"ping -c 5 -i 0.2 -W 20 {THERE}; {IN_PEER}ping -c 2 -i 0.2 -W 20 {HERE}")
        set_mode(guest, "legacy")
        assert not objects(guest).get("software icm")


def in_hardware(guest, packets):
    """Packets that the device has counted for the rules of tc, when there are that many."""
    for _ in range(75):
        said = run(guest, "sleep 0.2; tc -s filter show dev eth0 ingress")
        counted = [int(count) for count in re.findall(r"Sent hardware \d+ bytes (\d+) pkt", said)]
        if sum(counted) >= packets:
            break
    return sum(counted)


def test_flower_rules_drop_packets_and_go_to_chains(guest, suite):
    """The kernel sees none of these packets: the rules are the device's alone."""
    if suite != "bookworm":
        pytest.skip("only Debian's 6.1 is built with the offload of tc (MLX5_CLS_ACT)")
    rule = "tc filter add dev eth0 ingress prio 1 protocol ip"
    no_ping = f"! ping -c 2 -W 2 {THERE}"
    set_mode(guest, "switchdev")
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}; ethtool -K eth0 hw-tc-offload on")
    run(guest, f"tc qdisc add dev eth0 ingress; {rule} flower skip_sw ip_proto icmp action drop")
    run(guest, no_ping)
    assert in_hardware(guest, 2) == 2
    run(guest, f"tc filter del dev eth0 ingress; ping -c 2 -i 0.2 -W 20 {THERE}")
    run(guest, f"{rule} chain 0 flower skip_sw ip_proto icmp action goto chain 5")
    run(guest, f"{rule} chain 5 flower skip_sw src_ip {THERE} action drop")
    run(guest, no_ping)
    assert in_hardware(guest, 4) == 4
    run(guest, f"tc filter del dev eth0 ingress chain 5; ping -c 2 -i 0.2 -W 20 {THERE}")
    run(guest, "tc qdisc del dev eth0 ingress")
    set_mode(guest, "legacy")
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")


def test_modes_change_under_traffic(guest):
    job = guest.popen(f"{IN_PEER}ping -i 0.05 -W 20 {HERE} -c 200 -q || true")
    for name in ("switchdev", "legacy"):
        set_mode(guest, name)
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")
    assert guest.wait(job, timeout=240) == 0


def test_the_driver_goes_while_it_is_in_switchdev_mode(guest):
    set_mode(guest, "switchdev")
    run(guest, f"devlink dev reload {DEV}")
    run(guest, "until ip link show eth0 | grep -q eth0; do sleep 0.2; done")
    set_mode(guest, "legacy")
    run(guest, f"ping -c 2 -i 0.2 -W 20 {THERE}")
