"""Virtual functions in switchdev mode, and their representors."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import run
from helpers.guest.managed_vfs import HERE, PEER, bind, ports, switched
from helpers.guest.sub_functions import bridged
from helpers.guest.virtual_functions import interface

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
    for address in (two.address, HERE, PEER):
        assert one.reaches(address)
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


def test_rdma_devices_of_the_switch(guest, bridge):
    """One RDMA device has a port for each representor."""
    said = json.loads(run(guest, "rdma -j link"))
    names = {told.get("netdev") for told in said}
    assert {told["netdev"] for told in ports(guest).values()} <= names
