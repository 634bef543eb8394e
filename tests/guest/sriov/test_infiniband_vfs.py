"""InfiniBand virtual functions: each has a LID, and GUIDs and a state of the physical one's."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guests import FEW_KEYS, no_complaints, run
from helpers.guest.managed_vfs import bind
from helpers.guest.virtual_functions import enable, follow_the_port, rdma

from emu.guests import GuestOptions
from emu.server.control import Client

pytestmark = pytest.mark.guest

NODE_GUID = "00:11:22:33:44:55:66:77"
PORT_GUID = "00:11:22:33:44:55:66:78"


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    options = GuestOptions(
        suite=suite, devices=("connectx6,vfs=2",), memory_mib=2048, kernel_arguments=FEW_KEYS,
        **kernel,
    )  # fmt: skip
    guest = lab.get(options)
    run(guest, "modprobe ib_ipoib; until ip link show ib0; do sleep 0.1; done")
    enable(guest, 2, interfaces=0)
    assert "link-state disable" in run(guest, "ip link show ib0 | grep 'vf 1'")
    follow_the_port(guest, 2)
    yield guest
    if guest.is_running:
        enable(guest, 0)


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest):
        yield


def sysfs(guest, device, name):
    return run(guest, f"cat /sys/class/infiniband/{device}/{name}").strip()


def wait_for_state(guest, device, state):
    run(
        guest,
        f"until grep -q {state} /sys/class/infiniband/{device}/ports/1/state; do sleep 0.1; done",
    )


def pingpong(guest, one, two):
    run(
        guest,
        f"ibv_rc_pingpong -d {one} -n 50 >/dev/null & "
        "until ss -Hltn sport = :18515 | grep -q LISTEN; do sleep 0.1; done; "
        f"ibv_rc_pingpong -d {two} -n 50 127.0.0.1; wait",
    )


def test_each_has_a_port_of_its_own(guest):
    devices = ["mlx5_0", rdma(guest, 0), rdma(guest, 1)]
    for device in devices:
        wait_for_state(guest, device, "ACTIVE")
    lids = {sysfs(guest, device, "ports/1/lid") for device in devices}
    guids = {sysfs(guest, device, "node_guid") for device in devices}
    assert len(lids) == len(guids) == 3
    pingpong(guest, "mlx5_0", devices[1])
    pingpong(guest, devices[1], devices[2])


def test_the_state_of_a_port(guest):
    device = rdma(guest, 0)
    for state, seen in (("disable", "DOWN"), ("auto", "ACTIVE"), ("enable", "ACTIVE")):
        run(guest, f"ip link set ib0 vf 0 state {state}")
        wait_for_state(guest, device, seen)
        assert f"link-state {state}" in run(guest, "ip link show ib0 | grep 'vf 0'")
    run(guest, "ip link set ib0 vf 0 state auto")


def test_no_manager_activates_a_port_without_the_pfs_cable(guest):
    device = rdma(guest, 0)
    with Client(guest.control_socket) as control:
        name = control.add(point="load", action="link", function=0)
        for state, seen in (("auto", "DOWN"), ("enable", "INIT"), ("disable", "DOWN")):
            run(guest, f"ip link set ib0 vf 0 state {state}")
            wait_for_state(guest, device, seen)
        control.remove(name)
    run(guest, "ip link set ib0 vf 0 state auto")
    wait_for_state(guest, device, "ACTIVE")


def test_guids(guest):
    run(guest, f"ip link set ib0 vf 1 node_guid {NODE_GUID}")
    run(guest, f"ip link set ib0 vf 1 port_guid {PORT_GUID}")
    bind(guest, 1, "unbind")
    bind(guest, 1)
    device = rdma(guest, 1)
    assert sysfs(guest, device, "node_guid") == "0011:2233:4455:6677"
    assert sysfs(guest, device, "ports/1/gids/0").endswith("0011:2233:4455:6678")
    wait_for_state(guest, device, "ACTIVE")
    pingpong(guest, rdma(guest, 0), device)


def test_guids_last_until_the_pfs_driver_ends(guest):
    """It sets them again when functions are enabled (core/sriov.c: sriov_restore_guids)."""
    run(guest, f"ip link set ib0 vf 1 node_guid {NODE_GUID}")
    enable(guest, 0)
    enable(guest, 2, interfaces=0)
    assert sysfs(guest, rdma(guest, 1), "node_guid") == "0011:2233:4455:6677"
    wait_for_state(guest, rdma(guest, 1), "ACTIVE")


def test_counts_of_each_function(guest):
    def counts():
        (link,) = json.loads(run(guest, "ip -s -j link show ib0"))
        return [vf["stats"] for vf in link["vfinfo_list"]]

    before = counts()
    pingpong(guest, rdma(guest, 0), rdma(guest, 1))
    for old, new in zip(before, counts()):
        assert new["tx"]["tx_packets"] - old["tx"]["tx_packets"] >= 50
        assert new["rx"]["packets"] - old["rx"]["packets"] >= 50
