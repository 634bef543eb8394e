"""Failures of chaos that strike IPoIB's interface, and those that strike other queue pairs."""

from operator import ne

import pytest

from emu.device.faults.injector import Injector
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.underlay import IpoibInterface
from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.host import shipped
from emu.instruments.chaos.sets import read_sets
from layouts.enums.cmd import Status
from layouts.enums.cqe import CqeChecked
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

REQUESTS = 30
"""The latest moment of a failure."""
PACKETS = 400
OF_CONNECTIONS = {
    "remote-access", "remote-operation", "receiver-never-ready", "retries-exceeded",
    "acknowledgement-lost", "receiver-not-ready",
}  # fmt: skip
"""Failures that count packets of connections, which IPoIB does not have."""
ELSEWHERE = {"page-fault-fails", "rate-10-mbit"}
"""Failures of paged memory, and of a link, which is no rule."""


def failures_of(name):
    """Return the failures of a set, by name."""
    return {one.name: one for one in read_sets([shipped.example("failure set", name)])}


@pytest.fixture
def begin(ends):
    """Begins a failure of a set on the first of two nodes; returns how often its rules fired."""

    def begin_it(name, failure):
        function = ends[0].function
        injector = Injector(function)
        function.use_faults(injector)
        injector.load(failures_of(name)[failure].planned(0))
        return lambda: [rule["fired"] for rule in injector.listing()]

    return begin_it


def send(left, right):
    """Send requests one by one until one is not completed."""
    source = left.node.region(4096)
    source.write(b"\x08\x06\0\0" + bytes(56))
    for _ in range(REQUESTS):
        left.send(left.vector(right), source.sge(0, 60))
        left.node.settle()
        left.sq.cq.drain()


@pytest.mark.parametrize(
    "failure",
    [
        "local-protection", "flushed", "completion-lost", "link-flap-100-ms", "link-flap-30-s",
        "port-down", "adapter-restarts", "adapter-gone",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("name", "times"), [("over-ipoib", 1), ("verbs", 0)])
def test_requests_of_an_interface(ends, begin, name, times, failure):
    """Those of @verbs count requests of queue pairs."""
    left, right = (IpoibInterface(node) for node in ends)
    fired = begin(name, failure)
    send(left, right)
    assert fired() == [times]


@pytest.mark.parametrize(
    ("name", "strikes"), [("over-ipoib", True), ("over-ethernet", True), ("verbs", False)]
)
def test_late_completions_of_an_interface(ends, begin, name, strikes):
    left, right = (IpoibInterface(node) for node in ends)
    fired = begin(name, "completions-late")
    send(left, right)
    assert any(fired()) == strikes


def test_late_completions_keep_their_order(pair, clock):
    """The interfaces' driver frees all packets up to the one that a completion names."""
    traffic = Traffic(pair, "completions-late")
    left, right = (IpoibInterface(node) for node in pair)
    source = left.node.region(4096)
    source.write(traffic.packet)
    counters, ms = [], 0
    while len(counters) < 3 * REQUESTS and ms < 1000:
        if ms < 4 * REQUESTS:
            left.send(left.vector(right), source.sge(0, len(traffic.packet)))
        left.node.settle()
        counters += [entry.wqe_counter for entry in left.sq.cq.drain()]
        clock.advance(1_000_000)
        ms += 1
    assert traffic.is_struck
    assert counters == sorted(counters)
    assert len(counters) >= 3 * REQUESTS


@pytest.mark.parametrize("name", ["over-ipoib", "kernel"])
@pytest.mark.parametrize("failure", ["queue-pair-refused", "connection-refused"])
def test_the_queue_pair_of_an_interface_or_of_a_connection(ends, begin, name, failure):
    """The kernel makes a connection, and the interface that its addresses are of."""
    fired = begin(name, failure)
    status = Status.NO_RES_ERR if failure == "queue-pair-refused" else Status.BAD_PARAM_ERR
    of_interface, of_connection = lambda: IpoibInterface(ends[0]), lambda: Channel(QpType.RC, *ends)
    struck, other = of_interface, of_connection
    if name == "kernel":
        struck, other = other, struck
    other()
    assert fired() == [0]
    with pytest.raises(Exception, match=status.name):
        struck()
    assert fired() == [1]


class Traffic:
    """Packets of IPoIB between two functions, on which a failure of @over-ipoib is loaded."""

    def __init__(self, nodes, failure):
        self.packet = b"\x08\0\0\0" + EthPacket(payload=bytes(1400)).frame()[14:]
        self.nodes = nodes
        self.injectors = [Injector(node.function, number) for number, node in enumerate(nodes)]
        self.received = []
        """Checked headers and bytes of each packet that arrived."""
        for node, injector in zip(nodes, self.injectors):
            node.driver.create_eq(events=[EventType.PORT_CHANGE])
            node.function.use_faults(injector)
            injector.load(failures_of("over-ipoib")[failure].planned(0))

    @property
    def is_struck(self):
        return any(rule["fired"] for one in self.injectors for rule in one.listing())

    def run(self):
        """Set up an interface on each function, and exchange packets until the failure strikes."""
        ends = [IpoibInterface(node, receives=64) for node in self.nodes]
        regions = [node.region(4096) for node in self.nodes]
        for region in regions:
            region.write(self.packet)
        for _ in range(PACKETS):
            for end, other, region in zip(ends, ends[::-1], regions):
                end.sq.cq.arm()
                end.send(end.vector(other), region.sge(0, len(self.packet)))
                end.node.settle()
                end.sq.cq.drain()
                end.sq.cq.events()
                for entry, data in other.buffers.drain():
                    self.received.append((CqeChecked(entry.hds_ip_ext), data[GRH_BYTES:]))
                    other.buffers.post()
            if self.is_struck:
                return


@pytest.mark.parametrize("failure", failures_of("over-ipoib"))
def test_each_failure_strikes_interfaces(pair, failure):
    """A new failure strikes them, or somebody decides that IPoIB does not have it."""
    traffic = Traffic(pair, failure)
    try:
        traffic.run()
    except Exception:
        if not traffic.is_struck:
            raise
    assert traffic.is_struck == (failure not in OF_CONNECTIONS | ELSEWHERE)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [("packets-corrupted", CqeChecked.L3), ("data-changed", CqeChecked.L4)],
)
def test_a_checksum_shows_a_changed_byte(pair, failure, shown):
    traffic = Traffic(pair, failure)
    traffic.run()
    wrong = [data for _, data in traffic.received if data != traffic.packet]
    assert {sum(map(ne, data, traffic.packet)) for data in wrong} == {1}
    for checked, data in traffic.received:
        assert bool(checked & shown) == (data not in wrong)
