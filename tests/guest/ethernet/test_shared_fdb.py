"""Bonds of two functions in switchdev mode: their switches share a forwarding database (FDB).

Up to 6.12 the driver makes pairs of switches only where it has the offload of tc (MLX5_CLS_ACT). So
of Debian's kernels that of trixie makes none: each switch keeps its own FDB, and the bond is one
all the same.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.guest.cables import pulled
from helpers.guest.guests import no_complaints, run

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PORTS = ("eth0", "eth1")
HERE, PEER = "10.0.1.1", "10.0.1.9"
FLOWS = 200
PEER_UP = f"""set -e
modprobe bonding max_bonds=0
ip netns add peer; ip link set eth2 netns peer; ip -n peer link set eth2 up
ip -n peer address add {PEER}/24 dev eth2
"""
BOND = (Path(__file__).parents[3] / "examples/switch/bond.sh").read_text()
SAYS = re.compile(
    r"Dropping C-tag|HW_VLAN CTAG FILTERING, not supported|MPFS/FDB active"
    r"|Disabling (ntuple|HW MACsec offload), not supported in switchdev"
    r"|termination table is not supported|firmware level support is missing"
    r"|bond0: .*(link status|no active slave)"
)
"""What the driver tells of offloads that it does not have in switchdev mode, and what bonding does
of links."""


def set_mode(guest, name):
    for number in (1, 2):
        run(guest, f"devlink dev eswitch set pci/0000:0{number}:00.0 mode {name}")
    run(guest, f"for port in {' '.join(PORTS)}; do ip link set $port up; done; sleep 1")


def objects(guest):
    """How many objects of each kind both functions have, but for keys: RDMA's cache grows."""
    with Client(guest.control_socket) as control:
        functions = control.status()["functions"][:2]
    return [
        {kind: count for kind, count in one["objects"].items() if kind != "mkey"}
        for one in functions
    ]


def bond(guest, mode):
    assert "shared_fdb:" in run(guest, f"set -- {mode}\n{BOND}")
    run(guest, f"ip address add {HERE}/24 dev bond0")


@contextmanager
def bonded(guest, mode="active-backup"):
    """Both interfaces in a bond, both functions in switchdev mode; nothing is left afterwards."""
    set_mode(guest, "legacy")
    before = objects(guest)
    set_mode(guest, "switchdev")
    bond(guest, mode)
    yield
    run(guest, "ip link del bond0; sleep 1")
    set_mode(guest, "legacy")
    differ = [
        {kind: (then[kind], now[kind]) for kind in now if then[kind] != now[kind]}
        for then, now in zip(before, objects(guest))
    ]
    assert differ == [{}, {}]


def says(guest, what):
    return run(guest, f"dmesg | grep '{what}' | tail -n 1")


def reaches(guest):
    run(guest, f"ping -c 3 -i 0.2 -W 20 {PEER}; ip netns exec peer ping -c 2 -W 20 {HERE}")


def check_failover(guest):
    """Whatever cable is out, the bond and its peer reach each other."""
    for port in (0, 1):
        with pulled(guest, port):
            reaches(guest)


def by_default(linux):
    """How a bond that does not hash chooses the port: 7.2 hashes in any."""
    return "hash" if linux == "7.2" else "queue_affinity"


def test_of_debians_kernels(lab, suite):
    options = GuestOptions(suite=suite, devices=devices(",port_select=1"), memory_mib=2048)
    guest = lab.get(options)
    run(guest, PEER_UP)
    shared = f"shared_fdb:{int(suite != 'trixie')}"
    with no_complaints(guest, known=SAYS):
        with bonded(guest):
            assert f"{shared} mode:{by_default('7.2' if suite == 'sid' else '')}" in says(
                guest, "shared"
            )
            reaches(guest)
            check_failover(guest)
        with bonded(guest, "balance-xor"):
            assert f"{shared} mode:hash" in says(guest, "shared")
            reaches(guest)
            check_failover(guest)
        if suite == "sid":
            check_multi_port(guest)
    run(guest, "ip netns del peer")


def check_multi_port(guest):
    """Both switches are one without a bond, and either interface reaches the peer (from 6.5 on)."""
    dev = "pci/0000:01:00.0 name esw_multiport"
    set_mode(guest, "switchdev")
    run(guest, f"devlink dev param set {dev} value true cmode runtime")
    assert "shared_fdb:1 mode:mpesw" in says(guest, "shared_fdb")
    assert "mlx5_bond_0" in run(guest, "ls /sys/class/infiniband")
    for port in PORTS:
        run(guest, f"ip address add {HERE}/24 dev {port}; ip link set {port} up")
        reaches(guest)
        run(guest, f"ip address del {HERE}/24 dev {port}")
    run(guest, f"devlink dev param set {dev} value false cmode runtime")
    assert "mlx5_bond_0" not in run(guest, "ls /sys/class/infiniband")
    set_mode(guest, "legacy")


def devices(more):
    return (f"connectx6dx,board=1{more}", f"connectx6dx,board=1{more}", "connectx6dx")


@pytest.fixture(scope="module")
def guest(lab, with_sub_functions):
    options = GuestOptions(
        **with_sub_functions, devices=devices(",sfs=8,port_select=1"), memory_mib=3072
    )
    guest = lab.get(options)
    run(guest, PEER_UP)
    yield guest
    if guest.is_running:
        run(guest, "ip netns del peer")


@pytest.fixture
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


class BondedSf:
    """A sub-function of port 1 or 2, in a network namespace; rules lead to it, and to the bond."""

    def __init__(self, guest, port, uplink="bond0"):
        """``uplink`` is where what it sends is led to."""
        self.guest, self.space = guest, f"sf{port}"
        self.address, self.mac = f"10.0.1.{10 + port}", f"02:00:00:00:88:{port:02x}"
        dev = f"pci/0000:0{port}:00.0"
        # Up to 6.12 it is the port that counts, in 7.2 the PCI function, which is 0 of each here.
        new = f"devlink port add {dev} flavour pcisf sfnum 5 -j pfnum"
        said = run(guest, f"{new} {port - 1} || {new} 0")
        ((self.port, told),) = json.loads(f"{{{said}}}").items()
        self.representor = told["netdev"]
        self._begin()
        run(guest, f"ip -n peer neigh replace {self.address} lladdr {self.mac} dev eth2")
        run(guest, f"ethtool -K {self.representor} hw-tc-offload on")
        run(
            guest, f"tc qdisc add dev {self.representor} ingress; ip link set {self.representor} up"
        )
        self.lead_to(uplink)
        to_it = f"dst_mac {self.mac} action mirred egress redirect dev {self.representor}"
        run(guest, f"tc filter add block 7 protocol all flower skip_sw {to_it}")

    def lead_to(self, uplink):
        """Have what it sends leave there."""
        run(self.guest, f"tc filter del dev {self.representor} ingress")
        rule = f"flower skip_sw action mirred egress redirect dev {uplink}"
        run(self.guest, f"tc filter add dev {self.representor} ingress protocol all {rule}")

    def _begin(self):
        guest, space = self.guest, self.space
        run(guest, f"devlink port function set {self.port} hw_addr {self.mac} state active")
        run(guest, f"until devlink port show {self.port} | grep -q attached; do sleep 0.1; done")
        told = run(guest, f"devlink port show {self.port}")
        device = re.search(r"auxiliary/(mlx5_core\.sf\.\d+)", told)[1]
        enable = f"devlink dev param set auxiliary/{device} name enable_eth value true"
        run(guest, f"{enable} cmode driverinit; devlink dev reload auxiliary/{device}")
        name = run(guest, f"ls /sys/bus/auxiliary/devices/{device}/net").strip()
        peer = run(guest, "ip netns exec peer cat /sys/class/net/eth2/address").strip()
        run(guest, f"ip netns add {space}; ip link set {name} netns {space}")
        run(guest, f"ip -n {space} address add {self.address}/24 dev {name}")
        run(guest, f"ip -n {space} link set {name} up")
        run(guest, f"ip -n {space} neigh replace {PEER} lladdr {peer} dev {name}")

    def reaches_peer(self):
        run(self.guest, f"ip netns exec {self.space} ping -c 4 -i 0.2 -W 20 {PEER}")

    def counted(self):
        """Packets that the switch has taken to the bond."""
        said = run(self.guest, f"tc -s filter show dev {self.representor} ingress")
        return max(map(int, re.findall(r"Sent hardware \d+ bytes (\d+) pkt", said)), default=0)

    def counts(self, packets):
        """Whether that becomes so many, within seconds: the driver asks for counters seldom."""
        return any(run(self.guest, "sleep 1") or self.counted() >= packets for _ in range(15))

    def end(self):
        run(self.guest, f"ip netns del {self.space}; sleep 0.5; devlink port del {self.port}")


@contextmanager
def sub_functions(guest, uplink="bond0"):
    """A sub-function on each port; what comes by either cable is led to them by one block."""
    for port in PORTS:
        run(guest, f"ethtool -K {port} hw-tc-offload on")
        run(guest, f"tc qdisc add dev {port} ingress_block 7 ingress")
    found = [BondedSf(guest, port, uplink) for port in (1, 2)]
    yield found
    for sf in found:
        sf.end()
    for port in PORTS:
        run(guest, f"tc qdisc del dev {port} ingress_block 7 ingress")


@pytest.fixture
def sfs(guest, quiet):
    """Those of an active-backup bond."""
    with bonded(guest), sub_functions(guest) as found:
        yield found


def wait_for_ports(guest, ports):
    """Until the driver has told the adapter that these ports of the LAG are active."""
    last = "dmesg | grep 'lag map active ports' | tail -n 1"
    run(guest, f"until {last} | grep -q 'active ports: {ports}$'; do sleep 0.2; done")


def sent(guest):
    """Packets that have left by either cable."""
    said = [run(guest, f"ethtool -S {port}") for port in PORTS]
    return [int(re.search(r" tx_packets_phy: (\d+)", one)[1]) for one in said]


def flows_by_port(sf):
    """By which ports datagrams of FLOWS flows leave, that many by each."""
    before = sent(sf.guest)
    send = f"""python3 -c '
import socket
for port in range({FLOWS}):
    socket.socket(2, 2).sendto(bytes(64), ("{PEER}", 9000 + port))'"""
    run(sf.guest, f"ip netns exec {sf.space} {send}")
    run(sf.guest, "sleep 1")
    return [after - then for then, after in zip(before, sent(sf.guest))]


def test_a_bond_and_back(guest, linux, quiet):
    with bonded(guest):
        assert f"shared_fdb:1 mode:{by_default(linux)}" in says(guest, "shared_fdb")
        assert "single FDB" in says(guest, "Operation mode")
        reaches(guest)
        check_failover(guest)
        assert "mlx5_bond_0" in run(guest, "ls /sys/class/infiniband")
    assert "mlx5_bond_0" not in run(guest, "ls /sys/class/infiniband")
    with bonded(guest, "balance-xor"):
        reaches(guest)
        check_failover(guest)


def test_rules_lead_to_sub_functions_of_both_ports_by_either(guest, sfs):
    """The kernel sees none of these packets, whatever cable they come and go by."""
    for sf in sfs:
        sf.reaches_peer()
    for port in (0, 1):
        with pulled(guest, port):
            for sf in sfs:
                sf.reaches_peer()
    for sf in sfs:
        assert sf.counts(12)


def test_flows_of_a_sub_function_leave_by_both_ports(guest, quiet):
    """A bond that hashes: half of them by each, and all by the one whose cable is left."""
    with bonded(guest, "balance-xor layer3+4"), sub_functions(guest) as (one, two):
        wait_for_ports(guest, "1, 2")
        one.reaches_peer()
        assert all(count > FLOWS // 5 for count in flows_by_port(one))
        for port in (0, 1):
            with pulled(guest, port):
                wait_for_ports(guest, f"{2 - port}")
                gone, left = flows_by_port(two)[:: -1 if port else 1]
                assert (gone, left >= FLOWS) == (0, True)
                two.reaches_peer()
            wait_for_ports(guest, "1, 2")
        assert all(count > FLOWS // 5 for count in flows_by_port(two))
        told = run(guest, "grep . /sys/kernel/debug/mlx5/0000:01:00.0/lag/*")
        for line in ("members:0000:02:00.0", "state:active", "mapping:2", "port_sel_mode:hash"):
            assert f"/lag/{line}" in told
        assert "flags:shared_fdb:on" in told


def test_a_multi_port_switch_leads_to_either_cable(guest, quiet):
    """Without a bond: sub-functions of both ports, rules that lead to the cable of either."""
    param = "devlink dev param set pci/0000:01:00.0 name esw_multiport cmode runtime value"
    set_mode(guest, "switchdev")
    run(guest, f"{param} true")
    assert "shared_fdb:1 mode:mpesw" in says(guest, "shared_fdb")
    with sub_functions(guest, "eth0") as found:
        for sf in found:
            for number, port in enumerate(PORTS):
                sf.lead_to(port)
                sf.reaches_peer()
                by = flows_by_port(sf)
                assert by[number] >= FLOWS
                assert by[1 - number] < FLOWS // 10
    run(guest, f"{param} false")
    assert "mlx5_bond_0" not in run(guest, "ls /sys/class/infiniband")
    set_mode(guest, "legacy")


def test_the_second_ports_driver_leaves(guest, quiet):
    driver = "/sys/bus/pci/drivers/mlx5_core"
    set_mode(guest, "switchdev")
    bond(guest, "active-backup")
    run(guest, f"echo 0000:02:00.0 > {driver}/unbind; sleep 1")
    reaches(guest)
    run(guest, f"echo 0000:02:00.0 > {driver}/bind; ip link del bond0; sleep 1")
    set_mode(guest, "legacy")
