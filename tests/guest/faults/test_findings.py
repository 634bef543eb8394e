"""What was found in the stock driver: each plan of examples/findings brings it up again."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path

import pytest
from helpers.guest.fault_plans import ETHERNET, ETHERNET_MODELS, LOAD, with_traffic

from emu.guests import GuestError
from emu.instruments.outcome import Kind, findings
from emu.server.control import Client
from emu.server.service.plan_files import read_plan

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]
FOLDER = Path(__file__).parents[3] / "examples" / "findings"


def _parameters():
    for name, found in tomllib.loads((FOLDER / "findings.toml").read_text()).items():
        plan = read_plan(FOLDER / f"{name}.toml")
        marks = () if plan.expect.quick else pytest.mark.slow
        yield pytest.param(name, plan, found, id=name, marks=marks)


@pytest.mark.parametrize(("name", "plan", "found"), list(_parameters()))
def test_it_comes_up_again(boot, linux, name, plan, found):
    if linux not in found["kernels"]:
        pytest.skip(f"not seen in Linux {linux}")
    expect = plan.expect
    is_ethernet = expect.model.startswith(ETHERNET_MODELS)
    devices = (expect.model,) * (2 if is_ethernet else 1)
    guest = boot(devices=devices, probe=expect.when == "loaded")
    if is_ethernet:
        with_traffic(guest, ETHERNET)
    text = (FOLDER / f"{name}.toml").read_text()
    log = carried_out(guest, text, expect)
    missing = [want for want in expect.dmesg if not re.search(want, log)]
    assert not missing, log[-3000:]
    assert [one for one in findings(log) if one.kind is not Kind.DRIVER]


def carried_out(guest, text, expect):
    """The kernel's log when a plan has been carried out, as far as that went."""
    try:
        with Client(guest.control_socket) as control:
            control.load_plan(text)
        if expect.when == "loading":
            guest.run(LOAD, timeout=120)
        if expect.run:
            guest.run(expect.run, timeout=300)
        end = time.monotonic() + expect.seconds
        while not re.search(expect.dmesg[-1], log := guest.dmesg()) and time.monotonic() < end:
            time.sleep(0.3)
        return log
    except GuestError:
        return guest.console
