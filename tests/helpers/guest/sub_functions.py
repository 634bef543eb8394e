"""Sub-functions (SF) of a guest's switch, made and used by devlink, and rules of tc for them."""

from __future__ import annotations

import contextlib
import json
import re

from helpers.guest.guests import run

DEVICES = ("connectx6dx,sfs=64", "connectx6dx")
DEV = "pci/0000:01:00.0"
SAYS = re.compile(
    r"Dropping C-tag|HW_VLAN CTAG FILTERING, not supported|MPFS/FDB active"
    r"|Disabling (ntuple|HW MACsec offload), not supported in switchdev"
    r"|S-tagged traffic will be dropped"
)
"""What the driver tells of offloads that it does not have in switchdev or promiscuous mode, and of
its tables."""
PEER = "10.0.9.9"
"""Behind the cable of the first function."""


def set_mode(guest, name):
    run(guest, f"devlink dev eswitch set {DEV} mode {name}; ip link set eth0 up")


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


@contextlib.contextmanager
def sub_functions(guest):
    """Two of them, in switchdev mode, each in its namespace."""
    both = [Sf(guest, number) for number in (1, 2)]
    yield both
    for one in both:
        one.end()


def bridged(guest, *names):
    run(guest, "ip link add br0 type bridge; ip link set br0 up")
    for name in names:
        run(guest, f"ip link set {name} master br0")


def on(target):
    return f"action mirred egress redirect dev {target}"


def redirect(guest, source, target, more="", rule="protocol all flower skip_sw"):
    run(guest, f"tc qdisc replace dev {source} ingress")
    run(
        guest,
        f"tc filter add dev {source} ingress {rule} {more} {on(target)}",
    )


def in_hardware(guest, device, least=1):
    """The most packets that the device has counted for a rule of an interface.

    Waits until they are as many as ``least``, or for 15 s: the driver asks once a second.
    """
    for _ in range(15):
        said = run(guest, f"sleep 1; tc -s filter show dev {device} ingress")
        counted = [int(count) for count in re.findall(r"Sent hardware \d+ bytes (\d+) pkt", said)]
        if max(counted, default=0) >= least:
            break
    return max(counted, default=0)


def cross(guest, pair):
    """The two reach each other by rules of tc."""
    one, two = (sf.representor for sf in pair)
    redirect(guest, one, two)
    redirect(guest, two, one)


def clear(guest, *names):
    for name in names:
        run(guest, f"tc qdisc del dev {name} ingress")


def seen(guest, representor):
    """Packets of its sub-function that the guest's kernel has got, and not the switch alone."""
    said = run(guest, f"ethtool -S {representor}")
    return int(re.search(r"^ *rx_packets: (\d+)", said, re.MULTILINE)[1])


def track_connections(guest, pair):
    """A stream over the switch, by rules of an established connection (``ct_state``)."""
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
    assert in_hardware(guest, one.representor, 10) >= 10
    clear(guest, one.representor, two.representor)
