"""infiniband-diags and opensm on the servers' fabric: two guests with physical functions."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers.guest.guests import SECONDS, no_complaints_since_boot, on_a_fabric, run, running

from emu.device.port.ib.port import BASE_GUID, SM_LID

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie")]

GUIDS = [f"{BASE_GUID + 16 * number:x}" for number in range(2)]


@pytest.fixture(scope="module")
def guests(lab, suite, tmp_path_factory):
    options = on_a_fabric(suite, tmp_path_factory.mktemp("subnet") / "socket")
    both = (replace(one, devices=("connectx6",), packages=("opensm",)) for one in options)
    with running(*both) as found:
        yield found
        no_complaints_since_boot(*found)


def test_topology(guests):
    for guest in guests:
        found = run(guest, "ibnetdiscover")
        assert sorted(re.findall(r"^caguid=0x(\w+)", found, re.M)) == GUIDS
        assert f"base port 0 lid {SM_LID}" in found


def test_route(guests):
    """From the first to the second, through the switch."""
    hops = run(guests[1], "ibtracert 1 2").splitlines()
    assert [hop.split(" {")[0] for hop in hops] == [
        "From ca", "[1] -> switch port", "[2] -> ca port", "To ca",
    ]  # fmt: skip


def test_manager(guests):
    for guest in guests:
        assert "priority 15 state 3 SMINFO_MASTER" in run(guest, "sminfo")
        assert f"Lid:.............................{SM_LID}" in run(guest, f"smpquery PI {SM_LID} 0")


def test_opensm_stands_by_in_both(guests):
    """Each asks the other's manager as well, which answers from its own QP0."""
    jobs = [guest.popen("exec opensm -f /tmp/opensm.log > /tmp/opensm.out") for guest in guests]
    for guest in guests:
        run(
            guest, f"timeout {SECONDS} sh -c 'until grep STANDBY /tmp/opensm.out; do sleep 1; done'"
        )
    for guest, job in zip(guests, jobs):
        assert "MASTER" not in run(guest, "cat /tmp/opensm.out; pkill -x opensm")
        guest.wait(job, timeout=SECONDS)
