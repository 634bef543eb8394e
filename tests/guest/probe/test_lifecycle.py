"""The driver comes and goes: unload, reset, reboot, power-off; and two functions side by side."""

from __future__ import annotations

import json
import re

import pytest
from helpers.guest.kernel_log import RECOVERY, KernelLog, server_complaints

from emu.guests import GuestStoppedError
from layouts.enums.hca import NicInterface

pytestmark = pytest.mark.guest

UP = "until ibv_devinfo 2>/dev/null | grep -c PORT_ACTIVE | grep -qx {ports}; do sleep 0.1; done"
UNLOAD = "modprobe -r mlx5_ib mlx5_core"
LOAD = "modprobe mlx5_ib"
SECONDS_TO_RECOVER = 60
PAGES = 16


def wait_active(guest, ports=1):
    guest.run(UP.format(ports=ports), timeout=120).check()


def address(guest):
    """Of the first function on the PCI bus."""
    return guest.run("lspci -D -d 15b3: | cut -d' ' -f1").check().stdout.split()[0]


def pages_of_driver(guest):
    """How many pages the driver has lent to the firmware."""
    return int(guest.run("cat /sys/kernel/debug/mlx5/*/pages/fw_pages_total").check().stdout)


# A physical function fills its cache with 6000 memory keys at every load, on the older kernels;
# this one does so at boot only.
@pytest.mark.parametrize(
    ("device", "times", "profile"),
    [
        pytest.param("connectx6-vf", 20, "", marks=pytest.mark.slow),
        ("connectx6", 3, "prof_sel=0"),
    ],
)
def test_driver_unloads_and_loads(boot, device, times, profile):
    """Nothing is left behind in the device, and every page that it was given is taken back."""
    guest = boot(devices=(f"{device},pages={PAGES}",))
    for _ in range(times):
        assert pages_of_driver(guest) == 2 * PAGES
        guest.run(UNLOAD, timeout=120).check()
        guest.run(f"modprobe mlx5_core {profile}; {LOAD}", timeout=120).check()
        wait_active(guest)
    guest.run(UNLOAD, timeout=120).check()
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_function_level_resets(boot):
    """Behind the driver's back, which it finds at its next health poll; then without a driver."""
    guest = boot(devices=("connectx6-vf",))
    bdf = address(guest)
    reset = f"echo 1 > /sys/bus/pci/devices/{bdf}/reset"
    reporter = f"pci/{bdf} reporter fw_fatal"
    guest.run(f"devlink health set {reporter} grace_period 0").check()
    for times in range(1, 4):
        log = KernelLog(guest)
        guest.run(reset).check()
        log.wait_for("health recovery succeeded", SECONDS_TO_RECOVER)
        wait_active(guest)
        health = guest.run(f"devlink health show {reporter}").check().stdout
        assert f"error {times} recover {times}" in health
        assert [line for line in log.complaints() if not RECOVERY.search(line)] == []
    log = KernelLog(guest)
    for _ in range(2):
        guest.run(f"{UNLOAD}; {reset}; {LOAD}", timeout=120).check()
        wait_active(guest)
    guest.run(UNLOAD, timeout=120).check()
    assert [line for line in log.complaints() if not RESET_NOTICE.search(line)] == []
    assert "left behind" not in (guest.logs / "server.log").read_text()


RESET_NOTICE = re.compile(r": (resetting|reset done)$")
"""The PCI core's, from Linux 7 on: a warning for each reset that somebody asks for."""


@pytest.mark.slow
def test_two_functions_and_a_reboot(boot):
    """Both come back after a reboot of the kernel and after one by the reset button."""
    guest = boot(devices=("connectx6-vf", "connectx5-vf"))
    for again in (None, False, True):
        if again is not None:
            guest.reboot(hard=again)
        wait_active(guest, ports=2)
        said = guest.run("ibv_devinfo").check().stdout
        assert sorted(re.findall(r"port_lid:\s+(\d+)", said)) == ["1", "2"]
        assert len(set(re.findall(r"node_guid:\s+(\S+)", said))) == 2
        assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []
    power_off(guest)


@pytest.mark.parametrize(
    "device", ["connectx6", pytest.param("connectx6-vf", marks=pytest.mark.slow)]
)
def test_power_off_takes_nothing_apart(boot, tmp_path, device):
    """The driver shuts the function down in one go, so that 6000 keys do not hold it up."""
    trace = tmp_path / "trace"
    guest = boot(devices=(f"{device},pages={PAGES}",), trace=trace)
    guest.run("dmesg -n 8").check()
    power_off(guest)
    assert "Shutdown was called" in guest.console
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    ops = [event["op"] for event in events if event["point"] == "cmd"]
    # On a busy host the driver's cache of keys may be filling still.
    assert set(ops[ops.index("TEARDOWN_HCA") + 1 :]) <= {"CREATE_MKEY"}
    states = [event for event in events if event.get("register") == "cmdq_addr_l_sz"]
    assert states[-1]["fields"]["nic_interface"] == NicInterface.DISABLED


def power_off(guest):
    """Nobody complains while the machine goes down."""
    with pytest.raises(GuestStoppedError, match="powered off"):
        guest.run("poweroff; sleep 1000")
    assert "Call Trace" not in guest.console
    assert server_complaints(guest) == []
