"""Failures of chaos for programs over sockets: those of packets strike Ethernet frames."""

import pytest
from helpers.device.captured import plugged_functions
from helpers.device.eth_fixtures import *  # noqa: F403

from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.faults.injector import Injector
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.host import shipped
from emu.instruments.chaos.moments import counts_rdma
from emu.instruments.chaos.sets import read_sets, selected
from emu.server.net.eth.segments import Segments

FRAMES = 500
LARGE = 1400

OF_RDMA = {
    "remote-access", "remote-operation", "receiver-never-ready", "retries-exceeded",
    "acknowledgement-lost", "receiver-not-ready",
}  # fmt: skip
"""Failures that count events of RDMA because no other network has them."""
STRIKING = {
    "loss-1-percent", "loss-20-percent", "packets-reordered", "packets-doubled",
    "packets-corrupted", "latency-50-ms", "data-changed", "path-mtu-too-small", "peer-silent",
}  # fmt: skip


def failures_of(name):
    """Return the failures of a set that chaos chooses for Ethernet ports, by name."""
    sets = read_sets([shipped.example("failure set", name)])
    return {one.name: one for one in selected(sets, "eth", ())}


def fires(clock, failure, frame):
    """Return whether the failure's plan fires while both functions send the frame."""
    functions, _cables = plugged_functions(clock, Segments(clock))
    fired = 0
    for number, function in enumerate(functions):
        function.use_faults(injector := Injector(function, number))
        injector.load(failure.planned(0))
        faults = function.hca.probes.faults  # None: the plan has links alone
        for _ in range(FRAMES if faults else 0):
            faults.show(FRAME_TX_POINT, frame, function.vhca)
        fired += sum(rule["fired"] for rule in injector.listing())
    return fired > 0


def test_only_named_failures_count_events_of_rdma():
    """A new failure is of frames, or somebody decides that Ethernet does not have it."""
    failures = failures_of("over-ethernet")
    counting = {name for name, one in failures.items() if counts_rdma(one.planned(0))}
    assert counting == OF_RDMA
    assert "partition-key-gone" not in failures
    ipoib = {name for name, one in failures_of("over-ipoib").items() if counts_rdma(one.planned(0))}
    assert ipoib == OF_RDMA | STRIKING


@pytest.mark.parametrize(("name", "striking"), [("over-ethernet", STRIKING), ("over-ipoib", set())])
def test_frames(clock, name, striking):
    """Those of @over-ipoib count packets of queue pairs."""
    large = Frame(EthPacket(payload=bytes(LARGE)).frame())
    failures = failures_of(name)
    assert {one for one in failures if fires(clock, failures[one], large)} == striking


@pytest.mark.parametrize(
    ("length", "gso_size", "is_lost"),
    [(1294, 0, False), (1295, 0, True), (9000, 1228, False), (9000, 1448, True)],
)
def test_a_small_path_mtu_counts_what_a_super_frame_is_cut_into(clock, length, gso_size, is_lost):
    failure = failures_of("over-ethernet")["path-mtu-too-small"]
    frame = Frame(EthPacket().frame().ljust(length, b"\0"), gso_size=gso_size)
    assert fires(clock, failure, frame) == is_lost


@pytest.mark.parametrize(
    ("failure", "status"),
    [("queue-pair-refused", "NO_RES_ERR"), ("connection-refused", "BAD_PARAM_ERR")],
)
def test_an_interface_gets_its_send_queue_at_the_second_try(function, node, failure, status):
    tisn = create_tis(node.driver, alloc_td(node.driver))
    function.use_faults(injector := Injector(function))
    injector.load(failures_of("over-ethernet")[failure].planned(0))
    with pytest.raises(Exception, match=status):
        SendQueue(node, tisn=tisn)
    assert SendQueue(node, tisn=tisn).object
    assert [rule["fired"] for rule in injector.listing()] == [1]
