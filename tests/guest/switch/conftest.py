"""Guests whose first function manages a switch with sub-functions, in switchdev mode."""

from __future__ import annotations

import pytest
from helpers.guest.guests import no_complaints, run
from helpers.guest.sub_functions import DEVICES, PEER, SAYS, ports, remove, set_mode, sub_functions

from emu.guests import GuestOptions
from emu.server.control import Client

NO_RUNNING_AHEAD = ("-global", "vfio-user-pci.x-no-posted-writes=on")
"""Arguments of QEMU: a guest's write waits until the server has read it.

The driver gives a request that sets a flow meter 10 ms (core/en/tc/meter.c:
mlx5e_tc_meter_modify), and on a busy host the server may have to wait longer for a processor. So
it is the guest that waits then, before its 10 ms begin. A request that comes too late is
overwritten by the next one, as the driver's ring has room for one (core/lib/aso.c).
"""


@pytest.fixture(scope="module")
def guest(lab, with_sub_functions):
    """Its first function manages a switch; the second one, in a namespace, is what it reaches."""
    options = GuestOptions(
        **with_sub_functions, devices=DEVICES, memory_mib=3072, packages=("openvswitch-switch",),
        qemu_arguments=NO_RUNNING_AHEAD,
    )  # fmt: skip
    guest = lab.get(options)
    run(guest, "ip netns add peer; ip link set eth1 netns peer; ip -n peer link set eth1 up")
    run(guest, f"ip -n peer address add {PEER}/24 dev eth1")
    yield guest
    if guest.is_running:
        run(guest, "ip netns del peer")


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


@pytest.fixture(autouse=True)
def mode(guest, quiet):
    """Each test is in switchdev mode, and leaves nothing behind."""
    set_mode(guest, "legacy")
    before = objects(guest)
    set_mode(guest, "switchdev")
    yield
    if guest.is_running:
        for port in ports(guest):
            remove(guest, port)
        set_mode(guest, "legacy")
        after = objects(guest)
        assert {
            kind: (before[kind], after[kind]) for kind in after if before[kind] != after[kind]
        } == {}


def objects(guest):
    """How many objects of each kind the first function has, but for keys: RDMA's cache grows."""
    with Client(guest.control_socket) as control:
        found = control.status()["functions"][0]["objects"]
    return {kind: count for kind, count in found.items() if kind != "mkey"}


@pytest.fixture
def pair(guest, mode):
    with sub_functions(guest) as both:
        yield both
