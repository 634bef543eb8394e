"""Virtual functions by SR-IOV: mlx5_core enables, probes and loses them, and they have traffic."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from helpers.guest.guests import (
    FEW_KEYS,
    no_complaints,
    no_complaints_since_boot,
    reaches,
    run,
)
from helpers.guest.managed_vfs import DEV, ports
from helpers.guest.virtual_functions import (
    PF,
    address,
    are_neighbors,
    come,
    disable,
    enable,
    follow_the_port,
    in_namespaces,
    interface,
    out_of_namespaces,
    pingpong,
    rdma,
)

from emu.guests import GuestOptions
from emu.guests.conformance.suite import BROKEN, hand_over, prepare, run_module
from emu.server.control import Client

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "sriov"
RAW_PACKETS = Path(__file__).parents[1] / "inside" / "raw_packets.py"
ETHERNET, INFINIBAND = "connectx6dx,vfs=2", "connectx6,vfs=2"


@pytest.fixture
def guest(lab, suite, kernel):
    """A guest with an Ethernet function that can have two VFs, all of them disabled."""
    guest = lab.get(GuestOptions(suite=suite, devices=(ETHERNET,), **kernel))
    yield guest
    if guest.is_running:
        out_of_namespaces(guest)
        disable(guest)


@pytest.fixture
def few_keys(lab, suite, kernel):
    """The same guest, whose PF has no cache of memory keys: drivers end sooner."""
    options = GuestOptions(
        suite=suite, devices=(ETHERNET,), kernel_arguments=FEW_KEYS, memory_mib=2048, **kernel
    )
    guest = lab.get(options)
    yield guest
    if guest.is_running:
        out_of_namespaces(guest)
        disable(guest)


@pytest.fixture
def infiniband(lab, suite, kernel):
    """The same with InfiniBand."""
    guest = lab.get(GuestOptions(suite=suite, devices=(INFINIBAND,), **kernel))
    yield guest
    if guest.is_running:
        disable(guest)


def everybody_reaches(guest, count=2):
    """The PF reaches each VF, and each VF the next one."""
    in_namespaces(guest, count)
    for number in range(count):
        reaches(guest, f"10.0.0.{number + 1}")
        other = (number + 1) % count
        if other != number:
            run(guest, f"ip netns exec vf{number} ping -c 1 -W 20 10.0.0.{other + 1}")


def test_vfs_come_with_interfaces_and_reach_each_other(guest):
    with no_complaints(guest):
        enable(guest, 2)
        everybody_reaches(guest)
        out_of_namespaces(guest)
        disable(guest)
        enable(guest, 1)
        everybody_reaches(guest, 1)


def test_what_lspci_and_sysfs_show(guest):
    assert "Initial VFs: 2, Total VFs: 2" in run(guest, "lspci -vv -s 01:00.0")
    enable(guest, 2)
    shown = run(guest, "lspci -nn -d 15b3:").splitlines()
    assert [line.split()[0] for line in shown] == ["01:00.0", "01:00.1", "01:00.2"]
    assert all("[15b3:101e]" in line for line in shown[1:])
    assert run(guest, f"cat {PF}/sriov_numvfs {PF}/sriov_totalvfs").split() == ["2", "2"]
    assert run(guest, f"! echo 1 > {PF}/sriov_numvfs; cat {PF}/sriov_numvfs").strip() == "2"
    for number in range(2):
        place = f"/sys/bus/pci/devices/{address(number)}"
        assert run(guest, f"basename $(readlink {place}/physfn)").strip() == "0000:01:00.0"
    lines = run(guest, f"ip link show {interface(guest)}")
    assert "vf 0" in lines
    assert "vf 1" in lines


def test_rdma_between_pf_and_vfs(guest):
    enable(guest, 2)
    names = [interface(guest, number) for number in (None, 0, 1)]
    for at, name in enumerate(names):
        run(guest, f"ip link set {name} up; ip address replace 10.1.{at}.1/24 dev {name}")
    gid = "-g 1"
    run(
        guest,
        "for device in /sys/class/infiniband/*; do"
        " until grep -q 'RoCE v2' $device/ports/1/gid_attrs/types/1; do sleep 0.1; done; done",
    )
    for one, other in pairwise(names):
        are_neighbors(guest, one, other)
    pingpong(guest, rdma(guest), rdma(guest, 0), gid)
    pingpong(guest, rdma(guest, 0), rdma(guest, 1), gid)


def test_flows_of_raw_packets(guest):
    """A VF's device takes the same kinds as the PF's."""
    enable(guest, 1)
    guest.run("cat > /tmp/raw_packets.py", stdin=RAW_PACKETS.read_bytes()).check()
    numbers = [name.removeprefix("mlx5_") for name in (rdma(guest), rdma(guest, 0))]
    pf, vf = (run(guest, f"python3 /tmp/raw_packets.py flows {number}") for number in numbers)
    assert "normal: taken" in vf
    assert vf == pf


def test_an_flr_of_a_vf_leaves_the_others(guest):
    """Its driver has no callback for it, and finds the reset by its health poll or begins anew."""
    enable(guest, 2)
    everybody_reaches(guest)
    run(guest, f"echo 1 > {PF}/virtfn0/reset")
    reaches(guest, "10.0.0.2")
    # Unbound before its health poll, the driver of Linux 6.1 waits a minute for each command.
    found = f"dmesg | grep -q '{address(0)}.*Fatal error'"
    run(guest, f"for _ in $(seq 50); do {found} && exit 0; sleep 0.2; done")
    out_of_namespaces(guest)
    for action in ("unbind", "bind"):
        run(guest, f"echo {address(0)} > /sys/bus/pci/drivers/mlx5_core/{action}")
    come(guest, 2)
    everybody_reaches(guest)


def test_a_vf_is_unbound_and_bound_again(guest):
    enable(guest, 2)
    vf = address(1)
    for _ in range(3):
        run(guest, f"echo {vf} > /sys/bus/pci/drivers/mlx5_core/unbind")
        assert run(guest, f"! ls {PF}/virtfn1/net") == ""
        run(guest, f"echo {vf} > /sys/bus/pci/drivers/mlx5_core/bind")
        come(guest, 2)
    everybody_reaches(guest)


def test_an_flr_of_the_pf_and_then_vfs(guest):
    driver = "/sys/bus/pci/drivers/mlx5_core"
    run(guest, f"echo 0000:01:00.0 > {driver}/unbind")
    run(guest, f"echo flr > {PF}/reset_method; echo 1 > {PF}/reset")
    run(guest, f"echo 0000:01:00.0 > {driver}/bind; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    everybody_reaches(guest)


def test_the_pfs_driver_is_unbound_with_vfs_on(guest):
    driver = "/sys/bus/pci/drivers/mlx5_core"
    enable(guest, 2)
    everybody_reaches(guest)
    out_of_namespaces(guest)
    run(guest, f"echo 0000:01:00.0 > {driver}/unbind; ! ls /sys/bus/pci/devices/0000:01:00.1")
    assert run(guest, f"cat {PF}/sriov_numvfs").strip() == "0"
    run(guest, f"echo 0000:01:00.0 > {driver}/bind; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    everybody_reaches(guest)


def test_vfs_come_and_go_in_switchdev_mode(few_keys):
    """The mode may be set first, as kernel selftests do (devlink_rate_tc_bw.py)."""
    guest = few_keys
    run(guest, f"devlink dev eswitch set {DEV} mode switchdev")
    for count in (2, 1):
        enable(guest, count)
        assert len(ports(guest)) == count
        disable(guest)
        assert ports(guest) == {}
    run(guest, f"devlink dev eswitch set {DEV} mode legacy")
    enable(guest, 2)
    everybody_reaches(guest)


def test_a_reboot_in_switchdev_mode(few_keys):
    """Neither the mode nor the functions last."""
    guest = few_keys
    enable(guest, 2)
    run(guest, f"devlink dev eswitch set {DEV} mode switchdev")
    guest.reboot()
    assert run(guest, f"cat {PF}/sriov_numvfs").strip() == "0"
    assert "mode switchdev" not in run(guest, f"devlink dev eswitch show {DEV} || true")
    enable(guest, 2)
    everybody_reaches(guest)


def test_the_pfs_driver_is_unbound_in_switchdev_mode(few_keys):
    guest = few_keys
    driver = "/sys/bus/pci/drivers/mlx5_core"
    enable(guest, 2)
    run(guest, f"devlink dev eswitch set {DEV} mode switchdev")
    run(guest, f"echo 0000:01:00.0 > {driver}/unbind; ! ls /sys/bus/pci/devices/0000:01:00.1")
    run(guest, f"echo 0000:01:00.0 > {driver}/bind; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    everybody_reaches(guest)


def test_vfs_recover_from_a_reload_of_the_pf(few_keys):
    """Meanwhile they are disabled, as their drivers' health polls find (core/health.c)."""
    guest = few_keys
    enable(guest, 2)
    everybody_reaches(guest)
    out_of_namespaces(guest)
    run(guest, f"devlink dev reload {DEV}")
    succeeded = "health recovery succeeded"
    run(guest, f"until [ $(dmesg | grep -c '{succeeded}') = 2 ]; do sleep 0.2; done")
    come(guest, 2)
    everybody_reaches(guest)


def test_infiniband_vfs_recover_from_a_reload_of_the_pf(infiniband):
    """The PF's driver sets their policy again (core/sriov.c: sriov_restore_guids)."""
    guest = infiniband
    enable(guest, 2, interfaces=0)
    follow_the_port(guest, 2)
    run(guest, f"devlink dev reload {DEV}")
    succeeded = "health recovery succeeded"
    run(guest, f"until [ $(dmesg | grep -c '{succeeded}') = 2 ]; do sleep 0.2; done")
    come(guest, 2, interfaces=0)
    run(guest, "until ! ibv_devinfo | grep -q 'PORT_[DI]'; do sleep 0.1; done")
    pingpong(guest, rdma(guest), rdma(guest, 0))
    pingpong(guest, rdma(guest, 0), rdma(guest, 1))


def test_the_pf_is_removed_and_found_again(guest):
    enable(guest, 2)
    run(guest, f"echo 1 > {PF}/remove; ! ls /sys/bus/pci/devices/0000:01:00.1")
    run(guest, f"echo 1 > /sys/bus/pci/rescan; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    everybody_reaches(guest)


def test_infiniband_vfs(infiniband):
    run(infiniband, "modprobe ib_ipoib; until ip link show ib0; do sleep 0.1; done")
    with no_complaints(infiniband):
        enable(infiniband, 2, interfaces=0)
        follow_the_port(infiniband, 2)
        run(infiniband, "until ! ibv_devinfo | grep -q 'PORT_[DI]'; do sleep 0.1; done")
        pingpong(infiniband, rdma(infiniband), rdma(infiniband, 0))
        pingpong(infiniband, rdma(infiniband, 0), rdma(infiniband, 1))
        disable(infiniband)
        enable(infiniband, 2, interfaces=0)


def test_a_cold_boot_a_reboot_and_the_end_of_the_driver(boot):
    guest = boot(devices=(ETHERNET,), cold=True)
    enable(guest, 2)
    everybody_reaches(guest)
    guest.reboot()
    assert run(guest, f"cat {PF}/sriov_numvfs").strip() == "0"
    enable(guest, 2)
    guest.reboot(hard=True)
    enable(guest, 2)
    everybody_reaches(guest)
    out_of_namespaces(guest)
    run(guest, "modprobe -r mlx5_ib mlx5_core")
    assert run(guest, "lspci -d 15b3: | wc -l").strip() == "1"
    run(guest, f"modprobe mlx5_ib; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    no_complaints_since_boot(guest)


def test_the_example(boot):
    guest = boot(devices=("connectx6dx,vfs=3",), share=EXAMPLES)
    said = run(guest, "bash /mnt/share/namespaces.sh").splitlines()
    assert said[-3:] == [
        "pod0 reaches pod1", "pod1 reaches pod0", "pod0 does not reach pod2",
    ]  # fmt: skip


def test_the_steps_of_the_sriov_cni(boot):
    """Nothing of a pod stays in the interface, and in the settings by the physical function."""
    guest = boot(devices=(ETHERNET,), share=EXAMPLES)
    said = run(guest, "bash /mnt/share/cni.sh").splitlines()
    assert [line.split()[1:3] for line in said[1:3]] == [["101e", "mlx5_core"]] * 2
    assert "pod0 reaches 192.168.0.2" in said
    assert said[-1] == "back: eth1 eth2"
    taken, back = ([line for line in said if f"vf {number} " in line] for number in (0, 1))
    for told in (taken[0], back[0]):
        assert "vlan 10" in told
        assert "spoof checking on" in told
    for told in (taken[1], back[1]):
        assert "link/ether 00:00:00:00:00:00" in told
        assert "vlan" not in told
        assert "tx_rate" not in told
    no_complaints_since_boot(guest)


def test_a_vf_for_a_driver_in_user_space(boot, suite):
    """By vfio, behind an IOMMU; the physical function and the other VF have the kernel's driver."""
    if suite == "bookworm":
        pytest.skip("one of the tests wants a port that is up later than its driver")
    guest = boot(devices=("connectx7,vfs=2",), iommu=True)
    enable(guest, 2, interfaces=0)
    follow_the_port(guest, 2)
    prepare(guest)
    vf = hand_over(guest)
    assert vf == address(1)
    ran = run_module(guest, "test_mlx5_vfio", 300, lambda *_: None, vf)
    assert ran.count(*BROKEN) == 0
    assert len(ran.tests) == 2
    pingpong(guest, rdma(guest), rdma(guest, 0))


@pytest.mark.slow
@pytest.mark.parametrize("count", [7, 15])
def test_many_vfs(boot, count):
    guest = boot(devices=(f"connectx6dx,vfs={count}",), memory_mib=4096)
    enable(guest, count)
    everybody_reaches(guest, count)
    out_of_namespaces(guest)
    disable(guest)


@pytest.mark.slow
def test_a_hundred_cycles_leave_nothing_in_the_server(guest):
    """No driver probes them, which takes seconds each time."""
    run(guest, f"echo 0 > {PF}/sriov_drivers_autoprobe")
    cycles = f"for _ in $(seq 25); do echo 2 > {PF}/sriov_numvfs; echo 0 > {PF}/sriov_numvfs; done"
    seen = []
    for _ in range(4):
        run(guest, cycles)
        with Client(guest.control_socket) as control:
            pf, *vfs = control.status()["functions"]
        seen.append((pf["ledger"]["used"], [one["ledger"]["used"] for one in vfs], pf["vfs"]))
    run(guest, f"echo 1 > {PF}/sriov_drivers_autoprobe")
    assert seen == [seen[0]] * 4
    enable(guest, 2)
    everybody_reaches(guest)


@pytest.mark.slow
def test_a_secondary_bus_reset_with_native_hot_plug(boot):
    """By ACPI, QEMU's root port never reports its link active, which Linux waits for."""
    native = ("-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off")
    guest = boot(devices=(ETHERNET,), cold=True, qemu_arguments=native)
    driver = "/sys/bus/pci/drivers/mlx5_core"
    run(guest, f"echo 0000:01:00.0 > {driver}/unbind")
    run(guest, f"echo bus > {PF}/reset_method; echo 1 > {PF}/reset")
    run(guest, f"echo 0000:01:00.0 > {driver}/bind; until ls {PF}/net/*; do sleep 0.1; done")
    enable(guest, 2)
    everybody_reaches(guest)
