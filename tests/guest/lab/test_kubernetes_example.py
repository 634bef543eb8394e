"""examples/kubernetes: what device plugins look up of the functions in one guest."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest.guests import run
from helpers.guest.virtual_functions import enable, interface, rdma

from emu.guests.options.devices import DEFAULT_DEVICE

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLE = Path(__file__).parents[3] / "examples" / "kubernetes"
FUNCTIONS = 8


def test_a_node_of_eight(boot):
    """Six with an Ethernet port and two with InfiniBand, each with device files of its own.

    InfiniBand has issm as well; on Linux 6.1 every port has (core/user_mad.c: ib_umad_init_port).
    """
    devices = (*("connectx6dx",) * (FUNCTIONS - 2), *(DEFAULT_DEVICE,) * 2)
    guest = boot(devices=devices, share=EXAMPLE)
    head, *rows, last = guest.run("sh /mnt/share/node.sh", timeout=300).check().stdout.splitlines()
    assert last == f"kubernetes: {FUNCTIONS} functions"
    nodes = [dict(zip(head.split(), row.split(), strict=True)) for row in rows]
    assert [node["link"] for node in nodes] == ["Ethernet"] * 6 + ["InfiniBand"] * 2
    assert {node["device"] for node in nodes} == {"101d", "101b"}
    with_issm = FUNCTIONS if guest.kernel_release.startswith("6.1.") else 2
    files = [name for node in nodes for name in node["files"].split(",") if name != "rdma_cm"]
    assert len(set(files)) == len(files) == 2 * FUNCTIONS + with_issm
    assert len({node["netdev"] for node in nodes}) == FUNCTIONS
    chosen = guest.run("VENDORS=8086 sh /mnt/share/node.sh").check().stdout.splitlines()
    assert chosen[-1] == "kubernetes: 0 functions"


def test_a_node_with_virtual_functions(boot):
    """A plugin that selects by the device's number offers them without their physical function."""
    guest = boot(devices=("connectx6dx,vfs=2",), share=EXAMPLE)
    enable(guest, 2)
    for number in (None, 0, 1):
        run(guest, f"ip link set {interface(guest, number)} up")
        state = f"/sys/class/infiniband/{rdma(guest, number)}/ports/1/state"
        run(guest, f"until grep -q ACTIVE {state}; do sleep 0.1; done")
    head, *rows, last = run(guest, "sh /mnt/share/node.sh").splitlines()
    assert last == "kubernetes: 3 functions"
    nodes = [dict(zip(head.split(), row.split(), strict=True)) for row in rows]
    assert [node["device"] for node in nodes] == ["101d", "101e", "101e"]
    files = [name for node in nodes for name in node["files"].split(",") if name != "rdma_cm"]
    assert len(set(files)) == len(files) >= 6
