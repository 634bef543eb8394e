"""Virtual functions in switchdev mode, and their representors."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import DEV, HERE, PEER, bind, ports, switched
from helpers.guest.sub_functions import bridged
from helpers.guest.virtual_functions import PF, address, interface, rdma

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

MAC = "02:00:00:00:88:01"


@pytest.fixture(scope="module")
def bridge(guest):
    """Both virtual functions and the cable, by a bridge over their representors."""
    with switched(guest) as vfs:
        bridged(guest, *(vf.representor for vf in vfs), "eth0")
        run(guest, f"ip address flush dev eth0; ip address add {HERE}/24 dev br0")
        yield vfs
        if guest.is_running:
            run(guest, "ip link del br0")


def test_a_port_for_each_virtual_function(guest, bridge):
    found = [*ports(guest).values()]
    assert [told["vfnum"] for told in found] == [0, 1]
    for told, vf in zip(found, bridge):
        assert told["function"]["hw_addr"] == vf.mac
        name = told["netdev"]
        assert "driver: mlx5e_rep" in run(guest, f"ethtool -i {name}")
        label = run(guest, f"cat /sys/class/net/{name}/phys_port_name").strip()
        assert label == f"pf0vf{vf.number}"


def test_representors_and_a_bridge(guest, bridge):
    one, two = bridge
    for other in (two.address, HERE, PEER):
        assert one.reaches(other)
    name = next(iter(ports(guest).values()))["netdev"]
    assert "vport_rx_packets" in run(guest, f"ethtool -S {name}")


def test_function_of_a_port(guest, bridge, suite):
    """hw_addr, roce and rates of a virtual function, as orchestrators set them.

    The devlink of Linux 6.1's time has no option roce.
    """
    one, other = bridge
    off, on = ("", "") if suite == "bookworm" else (" roce disable", " roce enable")
    bind(guest, 0, "unbind")
    run(guest, f"devlink port function set {one.port} hw_addr {MAC}{off}")
    told = ports(guest)[one.port]["function"]
    assert told["hw_addr"] == MAC
    assert told.get("roce", "disable") == "disable"
    bind(guest, 0)
    name = interface(guest, 0)
    assert MAC in run(guest, f"ip link show {name}")
    run(guest, f"devlink port function rate set {one.port} tx_max 100mbit")
    assert "tx_max 100Mbit" in run(guest, f"devlink port function rate show {one.port}")
    run(guest, f"devlink port function rate set {one.port} tx_max 0")
    bind(guest, 0, "unbind")
    run(guest, f"devlink port function set {one.port} hw_addr {one.mac}{on}")
    bind(guest, 0)
    one.take()
    assert one.reaches(other.address, times=10)


@pytest.mark.parametrize(
    "setting",
    ["max_io_eqs 8", "migratable enable", "ipsec_crypto enable", "ipsec_packet enable"],
)
def test_functions_that_adapters_here_lack(guest, bridge, suite, setting):
    """The devlink of Linux 6.1's time knows none of these options."""
    refused = guest.run(f"devlink port function set {bridge[0].port} {setting}")
    assert refused.status
    why = "Unknown option" if suite == "bookworm" else "not supported"
    assert why in refused.stderr


def test_rdma_devices_of_the_switch(guest, bridge):
    """One RDMA device has a port for each representor."""
    said = json.loads(run(guest, "rdma -j link"))
    names = {told.get("netdev") for told in said}
    assert {told["netdev"] for told in ports(guest).values()} <= names


def test_names_that_plugins_look_up(guest, bridge):
    """Kubernetes' device plugin and Open vSwitch's CNI find a function's representor by these."""
    pf = "/sys/class/net/eth0"
    assert run(guest, f"cat {pf}/phys_port_name").strip() == "p0"
    switch = run(guest, f"cat {pf}/phys_switch_id").strip()
    assert len(switch) == 16
    found = run(guest, "grep -H . /sys/class/net/*/phys_switch_id 2>/dev/null; true").split()
    members = {line.split("/")[4] for line in found if line.endswith(f":{switch}")}
    assert members == {"eth0", *(vf.representor for vf in bridge)}
    for number in range(2):
        vf = address(number)
        place = f"/sys/bus/pci/devices/{vf}"
        assert run(guest, f"readlink -f {PF}/virtfn{number}").strip().endswith(vf)
        assert "eth0" in run(guest, f"ls {place}/physfn/net").split()
        assert run(guest, f"cat {place}/class").strip() == "0x020000"
        device = rdma(guest, number)
        assert run(guest, f"cat {place}/infiniband_verbs/uverbs*/ibdev").strip() == device
    assert "mode switchdev" in run(guest, f"devlink dev eswitch show {DEV}")
