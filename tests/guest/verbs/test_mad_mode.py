"""A function without ib_virt: the driver learns of its port by MAD_IFC (hw/mad.c)."""

from __future__ import annotations

import json

import pytest
from helpers.guest.ib_diags import fields
from helpers.guest.kernel_log import KernelLog, server_complaints

from emu.device.port.ib.port import BASE_GUID
from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

GUID = f"{BASE_GUID:016x}"
SECONDS = 60


@pytest.fixture
def guest(lab, suite):
    return lab.get(GuestOptions(suite=suite, devices=("connectx6-vf,ib_virt=0",)))


def run(guest, command):
    return guest.run(command, timeout=SECONDS).check().stdout


def test_boot_and_probe_are_quiet(guest):
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_port_is_active(guest):
    (link,) = json.loads(run(guest, "rdma -j -d link"))
    assert (link["state"], link["physical_state"]) == ("ACTIVE", "LINK_UP")
    assert (link["lid"], link["subnet_prefix"]) == (1, "fe80:0000:0000:0000")
    assert "CM" in link["caps"]
    rate = run(guest, "cat /sys/class/infiniband/mlx5_0/ports/1/rate")
    assert rate == "200 Gb/sec (4X HDR)\n"
    gids = run(guest, "cat /sys/class/infiniband/mlx5_0/ports/1/gids/[0-7]").replace(":", "")
    assert gids.split() == [f"fe80{0:012x}{GUID}"] + [f"fe80{0:028x}"] * 7


def test_tools_of_subnet_management(guest):
    """They work on the port itself: without ib_virt the driver takes SMPs."""
    assert fields(run(guest, "smpquery nodeinfo 1"), "Guid") == [f"0x{GUID}"]
    port = run(guest, "smpquery -D portinfo 0")
    assert (fields(port, "LinkState"), fields(port, "Lid")) == (["Active"], ["1"])
    assert "0: 0xffff" in run(guest, "smpquery -D pkeys 0")
    assert GUID in run(guest, "smpquery -D guidinfo 0")
    assert "LID start 0x1 end 0x1" in run(guest, "ibaddr")
    description = fields(run(guest, "smpquery -D nodedesc 0"), "Node Description")
    assert description == ["ConnectX-6 VF, mlx5emu"]


def test_ipoib_comes_up(guest):
    log = KernelLog(guest)
    run(guest, "modprobe ib_ipoib && ip link set ib0 up")
    run(guest, "until ip link show ib0 | grep -q LOWER_UP; do sleep 0.1; done")
    run(guest, "modprobe -r ib_ipoib")
    assert log.complaints() == []
