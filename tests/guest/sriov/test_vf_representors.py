"""Virtual functions in switchdev mode, and their representors."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import no_complaints, run
from helpers.guest.managed_vfs import DEV, HERE, PEER, SAYS, Vf, bind, with_peer
from helpers.guest.virtual_functions import interface

pytestmark = pytest.mark.guest

MAC = "02:00:00:00:88:01"


def set_mode(guest, name):
    run(guest, f"devlink dev eswitch set {DEV} mode {name}")


def ports(guest):
    """The devlink ports of virtual functions, by name."""
    found = json.loads(run(guest, "devlink port show -j"))["port"]
    return {name: told for name, told in found.items() if told["flavour"] == "pcivf"}


@pytest.fixture(scope="module")
def guest(lab, suite):
    """Its first function has two virtual ones; the second one is behind the cable."""
    with with_peer(lab, suite) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


@pytest.fixture(scope="module")
def switched(guest):
    """Both virtual functions and the cable, by a bridge over their representors."""
    vfs = [Vf(guest, number).start() for number in (0, 1)]
    set_mode(guest, "switchdev")
    names = [told["netdev"] for told in ports(guest).values()]
    run(guest, "ip link add br0 type bridge; ip link set br0 up")
    for name in (*names, "eth0"):
        run(guest, f"ip link set {name} master br0; ip link set {name} up")
    run(guest, f"ip address flush dev eth0; ip address add {HERE}/24 dev br0")
    yield vfs
    if guest.is_running:
        run(guest, "ip link del br0")
        for vf in vfs:
            run(guest, f"ip netns del {vf.space}; sleep 0.5")
        set_mode(guest, "legacy")
        assert ports(guest) == {}


def test_a_port_for_each_virtual_function(guest, switched):
    found = [*ports(guest).values()]
    assert [told["vfnum"] for told in found] == [0, 1]
    for told, vf in zip(found, switched):
        assert told["function"]["hw_addr"] == vf.mac
        name = told["netdev"]
        assert "driver: mlx5e_rep" in run(guest, f"ethtool -i {name}")
        label = run(guest, f"cat /sys/class/net/{name}/phys_port_name").strip()
        assert label == f"pf0vf{vf.number}"


def test_representors_and_a_bridge(guest, switched):
    one, two = switched
    for address in (two.address, HERE, PEER):
        assert one.reaches(address)
    name = next(iter(ports(guest).values()))["netdev"]
    assert "vport_rx_packets" in run(guest, f"ethtool -S {name}")


def test_function_of_a_port(guest, switched, suite):
    """hw_addr, roce and rates of a virtual function, as orchestrators set them."""
    if suite == "bookworm":
        pytest.skip("its devlink has no option roce")
    one, _ = switched
    port = next(iter(ports(guest)))
    bind(guest, 0, "unbind")
    run(guest, f"devlink port function set {port} hw_addr {MAC} roce disable")
    told = ports(guest)[port]["function"]
    assert (told["hw_addr"], told["roce"]) == (MAC, "disable")
    bind(guest, 0)
    name = interface(guest, 0)
    assert MAC in run(guest, f"ip link show {name}")
    run(guest, f"devlink port function rate set {port} tx_max 100mbit")
    assert "tx_max 100Mbit" in run(guest, f"devlink port function rate show {port}")
    run(guest, f"devlink port function rate set {port} tx_max 0")
    bind(guest, 0, "unbind")
    run(guest, f"devlink port function set {port} hw_addr {one.mac} roce enable")
    bind(guest, 0)
    one.take()
    assert one.reaches(switched[1].address, times=10)


def test_rdma_devices_of_the_switch(guest, switched):
    """One RDMA device has a port for each representor."""
    said = json.loads(run(guest, "rdma -j link"))
    names = {told.get("netdev") for told in said}
    assert {told["netdev"] for told in ports(guest).values()} <= names
