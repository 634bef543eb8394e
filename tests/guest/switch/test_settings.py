"""What devlink, ethtool and debugfs say and set of the switch, its ports and their representors."""

from __future__ import annotations

import re

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import (
    DEV,
    activate,
    add,
    bridged,
    clear,
    cross,
    in_hardware,
    ports,
    remove,
    set_mode,
    sub_functions,
)

pytestmark = [pytest.mark.guest, pytest.mark.slow]

TOLD = {
    *("mlx5_sf_add", "mlx5_sf_hwc_alloc", "mlx5_sf_activate", "mlx5_sf_vhca_event"),
    *("mlx5_sf_dev_add", "mlx5_sf_dev_del"),
    *("mlx5e_configure_flower", "mlx5e_delete_flower", "mlx5_fs_add_ft", "mlx5_fs_set_fte"),
    *("mlx5_esw_bridge_vport_init", "mlx5_esw_bridge_fdb_entry_init"),
    *("mlx5_esw_bridge_vport_cleanup", "mlx5_esw_vport_qos_create"),
}
"""Trace events of 6.12 and 7.2 (core/sf/diag, sf/dev/diag, esw/diag, diag)."""


def refused(guest, command, why):
    assert re.search(why, run(guest, f"({command}) 2>&1 && exit 1; true")), command


def test_of_the_switch(guest):
    said = run(guest, f"devlink dev eswitch show {DEV}")
    assert "mode switchdev inline-mode none encap-mode basic" in said
    refused(guest, f"devlink dev eswitch set {DEV} inline-mode transport", "can't be set")
    assert "flow_steering_mode" in run(guest, f"devlink dev param show {DEV}")
    run(guest, f"cat $(find /sys/kernel/debug/mlx5/{DEV[4:]}/steering -type f) >/dev/null")


def test_of_a_port(guest):
    """Its function's capability of RoCE is its manager's to set, until the function is active."""
    port, _ = add(guest, 5)
    assert ports(guest)[port]["function"]["roce"] == "enable"
    run(guest, f"devlink port function set {port} roce disable")
    assert ports(guest)[port]["function"]["roce"] == "disable"
    run(guest, f"devlink port function set {port} max_io_eqs 4")
    assert ports(guest)[port]["function"]["max_io_eqs"] == 4
    refused(guest, f"devlink port function set {port} max_io_eqs 65535", "out of range")
    refused(guest, f"devlink port function set {port} migratable enable", "doesn't support")
    device = activate(guest, port, "02:00:00:00:88:05")
    said = run(guest, f"devlink health diagnose {port} reporter vnic")
    assert "nic_receive_steering_discard" in said
    said = run(guest, f"grep . /sys/bus/auxiliary/devices/{device}/sfnum")
    assert said.strip() == "5"
    remove(guest, port)


def test_of_a_representor(guest, pair):
    one, two = pair
    cross(guest, pair)
    one.reaches(two.address)
    name = one.representor
    assert "driver: mlx5e_rep" in run(guest, f"ethtool -i {name}")
    assert "vport_rx_packets" in run(guest, f"ethtool -S {name}")
    run(guest, f"ethtool -G {name} rx 512; ethtool -C {name} adaptive-rx off")
    run(guest, f"ethtool -C {name} rx-usecs 10")  # what adaptive-rx changes has its defaults again
    run(guest, f"ethtool -L {name} combined 2; ethtool -L {name} combined 1")
    assert re.search(r"RX:\t+512", run(guest, f"ethtool -g {name}"))
    assert re.search(r"rx-usecs:\s*10", run(guest, f"ethtool -c {name}"))
    run(guest, f"ip link set {name} mtu 1400; ip link set {name} mtu 1500")
    run(guest, f"ip link set {name} carrier off; ip link set {name} carrier on")
    said = run(guest, f"ip stats show dev {name} group offload subgroup cpu_hit")
    assert "cpu_hit" in said
    one.reaches(two.address)
    clear(guest, one.representor, two.representor)


def test_shares_of_a_rate(guest, pair):
    """The least that a port or a group has (``tx_share``) becomes a share of the whole."""
    one, two = pair
    rate = "devlink port function rate"
    run(guest, f"{rate} add {DEV}/g1 tx_share 10mbit tx_max 100mbit")
    run(guest, f"{rate} set {one.port} tx_share 5mbit; {rate} set {one.port} parent g1")
    run(guest, f"{rate} set {one.port} tx_share 2mbit; {rate} set {two.port} tx_share 8mbit")
    run(guest, f"{rate} set {DEV}/g1 tx_share 20mbit")
    said = run(guest, f"{rate} show")
    assert "tx_share 20Mbit tx_max 100Mbit" in said
    assert "tx_share 2Mbit parent g1" in said
    cross(guest, pair)
    one.reaches(two.address)
    clear(guest, one.representor, two.representor)
    for sf in pair:
        run(guest, f"{rate} set {sf.port} tx_share 0; {rate} set {sf.port} noparent")
    run(guest, f"{rate} del {DEV}/g1")


def test_without_tunnels(guest):
    """``encap-mode none``, set in legacy mode: the tables of switchdev mode are made without."""
    set_mode(guest, "legacy")
    run(guest, f"devlink dev eswitch set {DEV} encap-mode none")
    set_mode(guest, "switchdev")
    assert "encap-mode none" in run(guest, f"devlink dev eswitch show {DEV}")
    with sub_functions(guest) as pair:
        one, two = pair
        cross(guest, pair)
        one.reaches(two.address)
        clear(guest, one.representor, two.representor)
    set_mode(guest, "legacy")
    run(guest, f"devlink dev eswitch set {DEV} encap-mode basic")


def test_ports_told_apart_without_metadata(guest):
    """As older adapters do it: entries match ``source_port`` in the place of register C0."""
    param = f"devlink dev param set {DEV} name esw_port_metadata cmode runtime value"
    set_mode(guest, "legacy")
    run(guest, f"{param} false")
    set_mode(guest, "switchdev")
    refused(guest, f"{param} true", "switchdev mode")
    with sub_functions(guest) as pair:
        one, two = pair
        cross(guest, pair)
        one.reaches(two.address)
        for sf in pair:
            assert in_hardware(guest, sf.representor, 3) >= 3
        clear(guest, one.representor, two.representor)
    set_mode(guest, "legacy")
    run(guest, f"{param} true")


@pytest.fixture
def events(guest):
    """All of the driver's trace events; the directory of tracefs."""
    where = "/sys/kernel/tracing"
    run(guest, f"mountpoint -q {where} || mount -t tracefs none {where}")
    if guest.run(f"test -d {where}/events/mlx5").status:
        pytest.skip("the kernel has no CONFIG_FTRACE")
    run(guest, f"echo > {where}/trace; echo 1 > {where}/events/mlx5/enable")
    yield where
    run(guest, f"echo 0 > {where}/events/mlx5/enable")


def test_trace_events_tell_what_the_driver_does(guest, events):
    with sub_functions(guest) as pair:
        one, two = pair
        cross(guest, pair)
        one.reaches(two.address)
        clear(guest, one.representor, two.representor)
        bridged(guest, one.representor, two.representor)
        one.reaches(two.address)
        run(guest, "ip link del br0")
        run(guest, f"devlink port function rate set {one.port} tx_max 80mbit")
        run(guest, f"devlink port function rate set {one.port} tx_max 0")
    said = set(re.findall(r": (mlx5\w+): ", run(guest, f"cat {events}/trace")))
    assert said >= TOLD, TOLD - said


def test_what_virtual_functions_would_have(guest):
    """In legacy mode; there are none, so the driver refuses all of it and goes on."""
    set_mode(guest, "legacy")
    for setting in ("vlan 5", "spoofchk on", "trust on", "rate 5", "state enable"):
        refused(guest, f"ip link set eth0 vf 0 {setting}", "RTNETLINK answers")
    refused(guest, "bridge link set dev eth0 hwmode vepa", "RTNETLINK answers")
    run(guest, "bridge link show dev eth0; ping -c 1 -W 20 127.0.0.1")
