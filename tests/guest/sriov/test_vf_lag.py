"""A bond of two physical functions in switchdev mode carries their virtual functions (VF LAG)."""

from __future__ import annotations

import pytest
from helpers.guest.cables import pulled
from helpers.guest.guests import FEW_KEYS, no_complaints, run
from helpers.guest.managed_vfs import SAYS
from helpers.guest.sub_functions import bridged

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PFS = "01", "02"
PEER = "10.0.1.9"
DEVICES = ("connectx6dx,board=1,vfs=2", "connectx6dx,board=1,vfs=2", "connectx6dx")
VF_INTERFACES = "ls -d /sys/bus/pci/devices/0000:0[12]:00.0/virtfn*/net/*"


@pytest.fixture
def guest(lab, suite, kernel):
    """Two virtual functions of each port, and a peer that both cables lead to."""
    options = GuestOptions(
        suite=suite, devices=DEVICES, memory_mib=3072, kernel_arguments=FEW_KEYS, **kernel
    )
    guest = lab.get(options)
    run(guest, "modprobe bonding max_bonds=0; ip netns add peer; ip link set eth2 netns peer")
    run(guest, f"ip -n peer address add {PEER}/24 dev eth2; ip -n peer link set eth2 up")
    for pf in PFS:
        run(guest, f"echo 2 > /sys/bus/pci/devices/0000:{pf}:00.0/sriov_numvfs")
    run(guest, f"until [ $({VF_INTERFACES} 2>/dev/null | wc -l) = 4 ]; do sleep 0.1; done")
    yield guest
    if guest.is_running:  # representors take names that interfaces in namespaces have
        run(guest, "ip link del bond0 2>/dev/null; true")
        for pf in PFS:
            run(guest, f"devlink dev eswitch set pci/0000:{pf}:00.0 mode legacy")
        run(guest, "ip -all netns delete; sleep 0.5")
        for pf in PFS:
            run(guest, f"echo 0 > /sys/bus/pci/devices/0000:{pf}:00.0/sriov_numvfs")


def of_each_port(guest):
    """Put the first virtual function of each port into a namespace of the port's name."""
    for number, pf in enumerate(PFS, 1):
        name = run(guest, f"ls /sys/bus/pci/devices/0000:{pf}:00.0/virtfn0/net").strip()
        run(guest, f"ip netns add vf{pf}; ip link set {name} netns vf{pf}")
        run(guest, f"ip -n vf{pf} address add 10.0.1.{number}/24 dev {name}")
        run(guest, f"ip -n vf{pf} link set {name} up")


def representors(guest):
    """Interfaces of the switch, but for the two ports."""
    found = run(guest, "grep -ls 'vf0$' /sys/class/net/*/phys_port_name; true").split()
    return [path.split("/")[4] for path in found]


def reach_the_peer(guest):
    for pf in PFS:
        run(guest, f"ip netns exec vf{pf} ping -c 3 -i 0.2 -W 20 {PEER}")


def test_virtual_functions_of_both_ports_by_one_bond(guest, suite):
    """Whatever cable is out. Up to 6.12 switches share an FDB only with MLX5_CLS_ACT."""
    of_each_port(guest)
    with no_complaints(guest, known=SAYS):
        for pf in PFS:
            run(guest, f"devlink dev eswitch set pci/0000:{pf}:00.0 mode switchdev")
        run(guest, "ip link add bond0 type bond mode active-backup miimon 100")
        for port in ("eth0", "eth1"):
            run(guest, f"ip link set {port} down; ip link set {port} master bond0")
        run(guest, "ip link set bond0 up; until dmesg | grep -q shared_fdb; do sleep 0.1; done")
        if "shared_fdb:0" in run(guest, "dmesg | grep shared_fdb | tail -n 1"):
            assert suite == "trixie"
            pytest.skip("without CONFIG_MLX5_CLS_ACT no bridge takes a bond of two switches")
        ends = representors(guest)
        assert len(ends) == 2
        for name in ends:
            run(guest, f"ip link set {name} up")
        bridged(guest, "bond0", *ends)
        reach_the_peer(guest)
        run(guest, "ip netns exec vf01 ping -c 3 -i 0.2 -W 20 10.0.1.2")
        for port in (0, 1):
            with pulled(guest, port):
                reach_the_peer(guest)
        run(guest, "ip link del br0; ip link del bond0; sleep 1")
        for pf in PFS:
            run(guest, f"devlink dev eswitch set pci/0000:{pf}:00.0 mode legacy")


LAG = "/sys/kernel/debug/mlx5/0000:01:00.0/lag"


def test_a_route_over_both_ports(guest):
    """Without a bond the driver maps ports as a route of two next hops tells it (lag/mp.c)."""

    def says(name, text):
        run(guest, f"until grep -q {text} {LAG}/{name}; do sleep 0.1; done")

    route = " ".join(f"nexthop via 10.1.{number}.9 dev eth{number}" for number in (0, 1))
    with no_complaints(guest, known=SAYS):
        for number, pf in enumerate(PFS):
            run(guest, f"devlink dev eswitch set pci/0000:{pf}:00.0 mode switchdev")
            run(guest, f"ip address replace 10.1.{number}.1/24 dev eth{number}")
            run(guest, f"ip link set eth{number} up")
        run(guest, f"ip route replace 10.9.0.0/24 {route}")
        says("type", "multipath")
        says("mapping", "1:1")
        run(guest, "ip link set eth0 down")
        says("mapping", "1:2")
        run(guest, f"ip link set eth0 up; ip route replace 10.9.0.0/24 {route}")
        says("mapping", "1:1")
        run(guest, "ip route del 10.9.0.0/24; ip address flush dev eth0; ip address flush dev eth1")
        for pf in PFS:
            run(guest, f"devlink dev eswitch set pci/0000:{pf}:00.0 mode legacy")
        says("state", "disabled")
