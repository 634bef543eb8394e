"""Dumps of objects: iproute2's raw resources, mlx5e's reporters, mstflint's mstresourcedump."""

import json
import re

import pytest
from helpers.guest.guest_pair import Pair
from helpers.guest.guests import run
from helpers.guest.kernel_log import KernelLog, server_complaints

from emu.guests import GuestOptions
from firmware_cmds.regs.dump_sources import SOURCES
from layouts.regs.resource_dump import SegmentType

pytestmark = pytest.mark.guest

RAW = re.compile(r'"ifname":"mlx5_0","data":\[([0-9,]+)\]')
"""iproute2 makes no document of it that json would take."""
DEBUGFS = "/sys/kernel/debug/mlx5/0000:01:00.0"
COMMAND_INDEX = slice(24, 28)
"""Where the second segment, the request itself, has index1."""


def segment_types(data):
    """The types of a stream's segments, in order."""
    found = []
    while data:
        found.append(int.from_bytes(data[2:4], "big"))
        data = data[4 * int.from_bytes(data[:2], "big") :]
    return found


def number(name):
    return next(kind for kind, source in SOURCES.items() if source.name == name)


def expect(data, *names):
    """It is one dump of an object of one of these kinds."""
    first, second, kind, last = segment_types(bytes(data))
    assert (first, second, last) == (
        SegmentType.INFO,
        SegmentType.COMMAND,
        SegmentType.TERMINATE,
    )
    assert kind in map(number, names)


def test_raw_resources(infiniband):
    """``rdma -r``: a process' own queue pair, completion queue and key."""
    pair = Pair(infiniband)
    for kind, name in (("qp", "PRM_QUERY_QP"), ("cq", "PRM_QUERY_CQ"), ("mr", "PRM_QUERY_MKEY")):
        said = run(infiniband, f"rdma -r -j resource show {kind}")
        dumps = [bytes(map(int, one.split(","))) for one in RAW.findall(said)]
        # Queue pair 1 is the driver's name for GSI's, whose number is another one.
        dumps = [data for data in dumps if segment_types(data)[2] != SegmentType.ERROR]
        assert dumps
        for data in dumps:
            expect(data, name)
        if kind == "qp":
            assert pair.qpn in [int.from_bytes(data[COMMAND_INDEX], "big") for data in dumps]
    pair.end()


def test_resources_in_detail(infiniband, suite):
    """``rdma -d`` and debugfs, of the same objects: what the driver adds is about other kinds."""
    pair = Pair(infiniband)

    def rows(what):
        return json.loads(run(infiniband, f"rdma -d -j {what}") or "[]")

    own = {
        kind: [row for row in rows(f"resource show {kind}") if row.get("comm") == "python3"]
        for kind in ("qp", "cq", "mr")
    }
    assert pair.qpn in [row["lqpn"] for row in own["qp"]]
    assert {row["pid"] for kind in own for row in own[kind]} == {own["qp"][0]["pid"]}
    assert own["cq"]
    assert own["mr"]
    # Only regions that are paged have counters.
    assert [row for row in rows("statistic show mr") if "page_faults" in row] == []
    sizes = run(infiniband, f"cat {DEBUGFS}/*cache/*/size || :").split()
    assert sizes or suite == "sid"  # Linux 7.2 has its pools elsewhere
    assert all(size.isdigit() for size in sizes)
    pair.end()


@pytest.mark.parametrize(("reporter", "queue"), [("tx", "SQ"), ("rx", "RQ")])
def test_reporters(ethernet, reporter, queue):
    """``devlink health dump show``: the context of each queue is that of its number."""
    nic = run(ethernet, "ls /sys/bus/pci/devices/0000:01:00.0/net").strip()
    run(ethernet, f"ip link set {nic} up")
    port = run(ethernet, f"devlink port | grep 'netdev {nic} '").split(": ")[0]
    said = json.loads(run(ethernet, f"devlink -j health dump show {port} reporter {reporter}"))
    expect(found(said, "data")[0], "SX_SLICE_ALL", "RX_SLICE_ALL")
    queues = found(said, queue)
    assert queues
    for one in queues:
        expect(one["data"], "FULL_QPC")
        assert int.from_bytes(bytes(one["data"])[COMMAND_INDEX], "big") == one["index"]


@pytest.mark.slow
def test_mstresourcedump(boot):
    guest = boot(devices=("connectx6",), packages=("mstflint",))
    menu = run(guest, "mstresourcedump query -d 0000:01:00.0")
    assert [source.name for source in SOURCES.values() if f"({source.name})" not in menu] == []
    said = run(guest, "mstresourcedump dump -d 0000:01:00.0 --segment FULL_EQC --index1 1")
    assert "Found 4 segments" in said
    assert f"Segment Type: {number('FULL_EQC'):#x}" in said


def found(tree, name):
    """Everything of this name in what a JSON document says."""
    if isinstance(tree, list):
        return [one for item in tree for one in found(item, name)]
    if not isinstance(tree, dict):
        return []
    here = [tree[name]] if name in tree else []
    return here + [one for item in tree.values() for one in found(item, name)]


@pytest.fixture
def infiniband(lab, suite):
    yield from quiet(lab.get(GuestOptions(suite=suite, devices=("connectx6",))))


@pytest.fixture
def ethernet(lab, suite):
    yield from quiet(lab.get(GuestOptions(suite=suite, devices=("connectx6dx",))))


def quiet(guest):
    """The guest; neither its driver nor its server has anything to say."""
    log = KernelLog(guest)
    yield guest
    assert log.complaints() == []
    assert server_complaints(guest) == []
