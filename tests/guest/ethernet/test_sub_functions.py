"""Sub-functions (SF) in a guest: their life by devlink, and what passes between them and the cable.

Each has an interface and an RDMA device of its own, and a representor in switchdev mode.
"""

from __future__ import annotations

import json
import re

import pytest
from helpers.guest.guests import no_complaints, run
from helpers.guest.psample import COUNT_SAMPLES
from helpers.guest.switch_kernel import switch_kernel

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = [pytest.mark.guest, pytest.mark.slow]

DEVICES = ("connectx6dx,sfs=64", "connectx6dx")
DEV = "pci/0000:01:00.0"
SAYS = re.compile(
    r"Dropping C-tag|HW_VLAN CTAG FILTERING, not supported|MPFS/FDB active"
    r"|Disabling (ntuple|HW MACsec offload), not supported in switchdev"
)
"""What the driver tells of offloads that it does not have in switchdev mode, and of its tables."""
PEER = "10.0.9.9"


@pytest.fixture(scope="module")
def guest(lab):
    """Its first function manages a switch; the second one, in a namespace, is what it reaches."""
    options = GuestOptions(**switch_kernel(), devices=DEVICES, memory_mib=3072)
    guest = lab.get(options)
    run(guest, "ip netns add peer; ip link set eth1 netns peer; ip -n peer link set eth1 up")
    run(guest, f"ip -n peer address add {PEER}/24 dev eth1")
    yield guest
    if guest.is_running:
        run(guest, "ip netns del peer")


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


@pytest.fixture(autouse=True)
def mode(guest, quiet):
    """Each test is in switchdev mode, and leaves nothing behind."""
    set_mode(guest, "legacy")
    before = objects(guest)
    set_mode(guest, "switchdev")
    yield
    if guest.is_running:
        for port in ports(guest):
            remove(guest, port)
        set_mode(guest, "legacy")
        after = objects(guest)
        assert {
            kind: (before[kind], after[kind]) for kind in after if before[kind] != after[kind]
        } == {}


def set_mode(guest, name):
    run(guest, f"devlink dev eswitch set {DEV} mode {name}; ip link set eth0 up")


def objects(guest):
    """How many objects of each kind the first function has, but for keys: RDMA's cache grows."""
    with Client(guest.control_socket) as control:
        found = control.status()["functions"][0]["objects"]
    return {kind: count for kind, count in found.items() if kind != "mkey"}


def ports(guest):
    """The sub-functions' ports: what devlink tells of each, by name."""
    found = json.loads(run(guest, "devlink port show -j"))["port"]
    return {name: told for name, told in found.items() if told["flavour"] == "pcisf"}


def add(guest, number):
    """A new sub-function's port, and the name of its representor."""
    said = run(guest, f"devlink port add {DEV} flavour pcisf pfnum 0 sfnum {number} -j")
    ((name, port),) = json.loads(f"{{{said}}}").items()
    return name, port["netdev"]


def activate(guest, port, address=None):
    """Let its driver begin; the name of its device."""
    if address:
        run(guest, f"devlink port function set {port} hw_addr {address}")
    run(guest, f"devlink port function set {port} state active")
    wait(guest, port, "attached")
    told = run(guest, f"devlink port show {port}")
    return re.search(r"auxiliary/(mlx5_core\.sf\.\d+)", told)[1]


def wait(guest, port, state):
    run(guest, f"until devlink port show {port} | grep -q {state}; do sleep 0.1; done")


def remove(guest, port):
    run(guest, f"devlink port del {port}")


def use(guest, device):
    """Give it an interface and an RDMA device, whose names are returned."""
    for what in ("enable_eth", "enable_rdma", "enable_roce"):
        run(
            guest,
            f"devlink dev param set auxiliary/{device} name {what} value true cmode driverinit",
        )
    run(guest, f"devlink dev reload auxiliary/{device}")
    place = f"/sys/bus/auxiliary/devices/{device}"
    rdma = run(guest, f"ls {place}/infiniband").strip()
    return run(guest, f"ls {place}/net").strip(), rdma


class Sf:
    """A sub-function in a network namespace of its own."""

    def __init__(self, guest, number):
        self.guest, self.space = guest, f"sf{number}"
        self.address, self.mac = f"10.0.9.{number}", f"02:00:00:00:88:{number:02x}"
        self.port, self.representor = add(guest, number)
        self.device = activate(guest, self.port, self.mac)
        self.name, self.rdma = use(guest, self.device)
        run(guest, f"ip netns add {self.space}; ip link set {self.name} netns {self.space}")
        run(guest, f"ip -n {self.space} address add {self.address}/24 dev {self.name}")
        run(guest, f"ip -n {self.space} link set {self.name} up; ip link set {self.representor} up")
        run(guest, f"ethtool -K {self.representor} hw-tc-offload on")

    def run(self, command):
        return run(self.guest, f"ip netns exec {self.space} {command}")

    def reaches(self, address):
        self.run(f"ping -c 3 -i 0.2 -W 20 {address}")

    def end(self):
        run(self.guest, f"ip netns del {self.space}; sleep 0.5")
        remove(self.guest, self.port)


@pytest.fixture
def pair(guest, mode):
    both = [Sf(guest, number) for number in (1, 2)]
    yield both
    for one in both:
        one.end()


def bridged(guest, *names):
    run(guest, "ip link add br0 type bridge; ip link set br0 up")
    for name in names:
        run(guest, f"ip link set {name} master br0")


def test_a_life(guest):
    port, representor = add(guest, 88)
    told = ports(guest)[port]
    assert (told["function"]["state"], told["function"]["opstate"]) == ("inactive", "detached")
    device = activate(guest, port, "02:00:00:00:00:88")
    name, rdma = use(guest, device)
    assert "02:00:00:00:00:88" in run(guest, f"ip link show {name}")
    assert rdma in run(guest, "rdma link")
    assert json.loads(run(guest, f"ip -j -d link show {representor}"))[0]["phys_switch_id"]
    run(guest, f"devlink port function set {port} state inactive")
    wait(guest, port, "detached")
    run(guest, f"! ip link show {name}")
    assert activate(guest, port)
    run(guest, f"devlink port function set {port} state inactive")


@pytest.mark.parametrize("step", ["inactive", "active", "attached", "in use"])
def test_it_goes_in_every_state(guest, step):
    port, _ = add(guest, 7)
    if step == "active":
        run(guest, f"devlink port function set {port} state active")
    elif step != "inactive":
        device = activate(guest, port)
        if step == "in use":
            use(guest, device)
    remove(guest, port)
    assert not ports(guest)


def test_through_a_bridge(guest, pair):
    """The bridge is carried out by the switch; the cable is one of its ports."""
    one, two = pair
    bridged(guest, one.representor, two.representor, "eth0")
    one.reaches(two.address)
    one.reaches(PEER)
    two.reaches(PEER)
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 2 -J"))
    assert said["end"]["sum_received"]["bytes"] > 1 << 16
    assert "offload" in run(guest, "bridge fdb show br br0")
    run(guest, "ip link del br0")


def on(target):
    return f"action mirred egress redirect dev {target}"


def redirect(guest, source, target, more="", rule="protocol all flower skip_sw"):
    run(guest, f"tc qdisc replace dev {source} ingress")
    run(
        guest,
        f"tc filter add dev {source} ingress {rule} {more} {on(target)}",
    )


def in_hardware(guest, device):
    """The most packets that the device has counted for a rule of an interface."""
    for _ in range(15):
        said = run(guest, f"sleep 1; tc -s filter show dev {device} ingress")
        counted = [int(count) for count in re.findall(r"Sent hardware \d+ bytes (\d+) pkt", said)]
        if any(counted):
            break
    return max(counted)


def cross(guest, pair):
    """The two reach each other by rules of tc."""
    one, two = (sf.representor for sf in pair)
    redirect(guest, one, two)
    redirect(guest, two, one)


def clear(guest, *names):
    for name in names:
        run(guest, f"tc qdisc del dev {name} ingress")


def test_rules_redirect(guest, pair):
    cross(guest, pair)
    one, two = pair
    one.reaches(two.address)
    for sf in pair:
        assert in_hardware(guest, sf.representor) >= 3
    clear(guest, one.representor, two.representor)


def rdma_seconds(guest, pair, octets):
    """How long twenty messages take there and back."""
    one, two = pair
    options = f"-g 3 -n 20 -s {octets}"  # RoCE v2 of the IPv4 address
    guest.popen(f"ip netns exec {one.space} timeout 100 ibv_rc_pingpong -d {one.rdma} {options}")
    run(guest, "until ss -Hltn -N sf1 sport = :18515 | grep -q LISTEN; do sleep 0.1; done")
    told = two.run(f"timeout 90 ibv_rc_pingpong -d {two.rdma} {options} {one.address}")
    found = re.search(r"20 iters in ([\d.]+) seconds", told)
    assert found, told
    return float(found[1])


def test_rdma_between_them(guest, pair):
    cross(guest, pair)
    rdma_seconds(guest, pair, 4096)
    clear(guest, *(sf.representor for sf in pair))


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
    assert in_hardware(guest, "eth0") >= 3
    assert in_hardware(guest, one.representor) >= 3
    run(guest, "ip -n peer link del v7")
    clear(guest, one.representor, "eth0")


def test_headers_change_and_mirrors(guest, pair):
    one, two = pair
    redirect(guest, one.representor, two.representor, "action mirred egress mirror dev eth0 pipe")
    rule = "protocol ip prio 1 flower skip_sw ip_proto icmp"
    change = "action pedit ex munge ip ttl set 33 pipe csum ip pipe"
    redirect(guest, two.representor, one.representor, change, rule)
    redirect(guest, two.representor, one.representor, "", "protocol arp prio 2 flower skip_sw")
    assert "ttl=33" in one.run(f"ping -c 2 -W 20 {two.address}")
    clear(guest, one.representor, two.representor)


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
    assert in_hardware(guest, one.representor) >= 20
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


def rate(guest, sf, **what):
    """Set a rate of a sub-function's port by devlink."""
    said = " ".join(f"{name} {value}" for name, value in what.items())
    run(guest, f"devlink port function rate set {sf.port} {said}")


def stream(one, two):
    """Bits per second of TCP from one to the other."""
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 4 -J"))
    return said["end"]["sum_received"]["bits_per_second"]


def test_rates_of_ports_and_of_groups(guest, pair):
    """``devlink port function rate``: what a sub-function sends keeps to it."""
    one, two = pair
    cross(guest, pair)
    rate(guest, one, tx_max="20mbit")
    assert 8e6 < stream(one, two) < 22e6
    rate(guest, one, tx_max="0")
    run(guest, f"devlink port function rate add {DEV}/g1 tx_max 30mbit")
    for sf in pair:
        rate(guest, sf, parent="g1")
    assert 12e6 < stream(one, two) < 33e6
    assert "tx_max 30Mbit" in run(guest, f"devlink port function rate show {DEV}/g1")
    for sf in pair:
        run(guest, f"devlink port function rate set {sf.port} noparent")
    run(guest, f"devlink port function rate del {DEV}/g1")
    clear(guest, one.representor, two.representor)


def test_rates_hold_for_rdma(guest, pair):
    cross(guest, pair)
    octets = 1 << 16
    at_most = 20 * octets * 8 / 2e6
    free = rdma_seconds(guest, pair, octets)
    rate(guest, pair[0], tx_max="2mbit")
    assert at_most <= rdma_seconds(guest, pair, octets) < 2 * at_most + free
    rate(guest, pair[0], tx_max="0")
    assert rdma_seconds(guest, pair, octets) < at_most
    clear(guest, *(sf.representor for sf in pair))


def test_connections_are_tracked(guest, pair):
    """What belongs to an established connection passes without the kernel."""
    one, two = pair
    for sf, other in ((one, two), (two, one)):
        rule = f"tc filter add dev {sf.representor} ingress protocol ip"
        run(guest, f"tc qdisc replace dev {sf.representor} ingress")
        run(
            guest,
            f"{rule} prio 1 chain 0 flower ct_state -trk action ct zone 5 pipe action goto chain 1",
        )
        run(guest, f"{rule} prio 2 chain 1 flower ct_state +trk+est {on(other.representor)}")
        redirect(guest, sf.representor, other.representor, "", "protocol arp prio 9 flower")
    rule = f"tc filter add dev {one.representor} ingress protocol ip prio 1 chain 1"
    run(
        guest, f"{rule} flower ct_state +trk+new action ct zone 5 commit pipe {on(two.representor)}"
    )
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 3 -J"))
    assert said["end"]["sum_received"]["bytes"] > 1 << 16
    assert in_hardware(guest, one.representor) >= 10
    clear(guest, one.representor, two.representor)


def test_64_of_them(guest):
    made = [add(guest, number)[0] for number in range(100, 164)]
    devices = [activate(guest, port) for port in made]
    assert len(set(devices)) == 64
    for device in devices[:4]:
        assert use(guest, device)
    run(guest, "devlink port show >/dev/null")
    for port in made:
        remove(guest, port)


def test_the_driver_goes_with_them(guest):
    port, _ = add(guest, 3)
    use(guest, activate(guest, port))
    run(guest, f"devlink dev reload {DEV}")
    run(guest, "until ip link show eth0 | grep -q eth0; do sleep 0.2; done")
    assert not ports(guest)
    set_mode(guest, "switchdev")
    port, _ = add(guest, 3)
    activate(guest, port)
