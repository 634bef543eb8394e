"""A stock driver finds the emulated function, and its tools show what the function says it is."""

from __future__ import annotations

import json
from ipaddress import IPv6Address

import pytest
from helpers.guest.kernel_log import KernelLog, server_complaints

from emu.device.models import MODELS
from emu.device.port.ib.port import BASE_GUID
from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

GUID = f"{BASE_GUID:016x}"
FIRMWARE_QUERY = "fw query isn't supported by the FW"
"""Linux 6.1 asks a virtual function as well, which has no firmware of its own to show."""


@pytest.fixture(params=["connectx6", "connectx6-vf"])
def device(request):
    return request.param


@pytest.fixture
def model(device):
    return MODELS[device]


@pytest.fixture
def guest(lab, suite, device):
    return lab.get(GuestOptions(suite=suite, devices=(device,)))


def show(guest, command):
    """A tool's answer as JSON."""
    return json.loads(guest.run(command).check().stdout)


def test_boot_and_probe_are_quiet(guest):
    """No warning of the driver, the RDMA stack or PCI, and no trace of anybody."""
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_port_is_active(guest, model):
    said = guest.run("ibv_devinfo -v").check().stdout
    fields = {name.strip(): value.strip() for name, _, value in
              (line.partition(":") for line in said.splitlines())}  # fmt: skip
    assert fields["state"] == "PORT_ACTIVE (4)"
    assert fields["phys_state"] == "LINK_UP (5)"
    assert fields["link_layer"] == "InfiniBand"
    assert (fields["max_mtu"], fields["active_mtu"]) == ("4096 (5)", "4096 (5)")
    assert fields["active_width"] == "4X (2)"
    assert fields["fw_ver"] == model.firmware
    assert fields["board_id"] == model.psid
    assert fields["vendor_id"] == "0x02c9"
    assert int(fields["vendor_part_id"]) == model.identity.device_id
    assert fields["node_guid"].replace(":", "") == GUID
    assert int(fields["port_lid"]) == 1
    (gid,) = (line.partition("]:")[2] for line in said.splitlines() if "GID[" in line)
    assert IPv6Address(gid.strip()) == IPv6Address((0xFE80 << 112) + BASE_GUID)


def test_rdma_tool_shows_device_and_link(guest, model):
    (link,) = show(guest, "rdma -j link")
    assert (link["state"], link["physical_state"], link["lid"]) == ("ACTIVE", "LINK_UP", 1)
    (device,) = show(guest, "rdma -j dev")
    assert (device["fw"], device["node_guid"].replace(":", "")) == (model.firmware, GUID)
    (resources,) = show(guest, "rdma -j resource")
    assert resources["qp"] >= 2  # SMI and GSI
    assert resources["pd"] >= 1
    assert resources["cq"] >= 1


def test_devlink_finds_the_function_healthy(guest, model):
    log = KernelLog(guest)
    (info,) = (
        about for name, about in show(guest, "devlink -j dev info")["info"].items()
        if name.startswith("pci/")
    )  # fmt: skip
    assert info["driver"] == "mlx5_core"
    is_pf = not model.identity.is_vf
    if is_pf or "versions" in info:  # newer kernels give a VF none
        assert info["versions"]["fixed"]["fw.psid"] == model.psid
    if is_pf:
        for kind in ("running", "stored"):
            assert info["versions"][kind]["fw.version"] == model.firmware
    for reporters in show(guest, "devlink -j health")["health"].values():
        for reporter in reporters:
            assert reporter["state"] == "healthy", reporter
            assert reporter["error"] == 0
    complaints = log.complaints()
    assert [line for line in complaints if is_pf or FIRMWARE_QUERY not in line] == []


def test_vnic_diagnostics_can_be_asked_for(guest, suite):
    """QUERY_VNIC_ENV; each counter has a capability bit."""
    if suite == "bookworm":
        pytest.skip("its kernel has no vnic reporter")
    said = guest.run(
        "devlink health diagnose pci/$(lspci -D -d 15b3: | cut -d' ' -f1) reporter vnic"
    ).check()
    assert "vNIC env counters" in said.stdout
    for name in ("comp_eq_overrun", "async_eq_overrun", "cq_overrun", "invalid_command"):
        assert f"{name}: 0" in said.stdout


def test_pci_tools_read_every_capability(guest, model):
    said = guest.run("lspci -vvv -d 15b3:").check()
    assert "Kernel driver in use: mlx5_core" in said.stdout
    assert "MSI-X: Enable+" in said.stdout
    assert "FLReset+" in said.stdout
    for trouble in ("!!!", "<access denied>", "unknown"):
        assert trouble not in said.stdout
    assert said.stderr == ""
