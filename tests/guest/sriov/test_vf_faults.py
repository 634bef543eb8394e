"""Plans of examples/faults for a VF's probe and health: the physical function stays well."""

from __future__ import annotations

import re

import pytest
from helpers.guest.fault_plans import PLANS, missing_lines
from helpers.guest.guests import run
from helpers.guest.kernel_log import KernelLog
from helpers.guest.managed_vfs import bind
from helpers.guest.virtual_functions import (
    address,
    come,
    disable,
    enable,
    follow_the_port,
    pingpong,
    rdma,
)

from emu.guests import GuestOptions
from emu.server.control import Client
from emu.server.service.plan_files import read_plans

pytestmark = [pytest.mark.guest, pytest.mark.timeout(600)]

VF = 0
ITSELF = f"pci/{address(VF)}"
FIRST_DEVICE = "$(devlink dev | grep -m 1 -o '^pci/[^ ]*[0-9]')"
"""How plans name the device of function 0."""
QUICK = ("probe-create-eq-fails", "probe-query-issi-fails", "health-syndrome-assert")


def _parameters():
    plans = read_plans(PLANS)
    for name, plan in sorted(plans.items()):
        if name.startswith(("probe-", "health-", "nic-interface-")):
            marks = () if name in QUICK else pytest.mark.faults
            yield pytest.param(name, plan.expect, id=name, marks=marks)


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6,vfs=1",), **kernel))
    enable(guest, 1, interfaces=0)
    follow_the_port(guest, 1)
    run(
        guest,
        f"for r in fw fw_fatal; do devlink health set {ITSELF} reporter $r grace_period 0; done",
    )
    talks(guest)
    yield guest
    if guest.is_running:
        disable(guest)


def talks(guest):
    """Messages between the PF and the VF."""
    come(guest, 1, interfaces=0)
    run(guest, "until ! ibv_devinfo | grep -q 'PORT_[DI]'; do sleep 0.1; done")
    pingpong(guest, rdma(guest), rdma(guest, VF))


@pytest.mark.parametrize(("name", "expect"), list(_parameters()))
def test_plan_of_a_vf(guest, name, expect):
    text = (PLANS / f"{name}.toml").read_text().replace("[[rule]]", "[[rule]]\nfunction = 1")
    log = KernelLog(guest)
    if expect.when == "loading":
        bind(guest, VF, "unbind")
    with Client(guest.control_socket) as control:
        control.load_plan(text)
        if expect.when == "loading":
            guest.run(f"echo {address(VF)} > /sys/bus/pci/drivers/mlx5_core/bind", timeout=120)
        if expect.run:
            said = guest.run(expect.run.replace(FIRST_DEVICE, ITSELF), timeout=300).stdout
            assert re.search(expect.says, said)
        assert missing_lines(log, expect) == []
        assert control.fired()
        control.clear()
    ours = [text for _, text in log.lines() if "0000:01:00.0" in text]
    assert [text for text in ours if "mlx5_core" in text] == []
    if expect.heals != "by itself":
        place = f"/sys/bus/pci/devices/{address(VF)}/driver"
        run(guest, f"[ ! -e {place} ] || echo {address(VF)} > {place}/unbind")
        bind(guest, VF)
    talks(guest)
