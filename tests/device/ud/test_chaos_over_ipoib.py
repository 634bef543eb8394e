"""Failures of chaos that strike IPoIB's interface, and those that strike other queue pairs."""

import pytest

from emu.device.faults.injector import Injector
from emu.driver.ethernet.underlay import IpoibInterface
from emu.driver.verbs.channels import Channel
from emu.host import shipped
from emu.instruments.chaos.sets import read_sets
from layouts.enums import QpType, Status

REQUESTS = 30
"""The latest moment of a failure."""


@pytest.fixture
def begin(ends):
    """Begins a failure of a set on the first of two nodes; returns how often its rules fired."""

    def begin_it(name, failure):
        (one,) = (
            one for one in read_sets([shipped.example("failure set", name)]) if one.name == failure
        )
        function = ends[0].function
        injector = Injector(function)
        function.use_faults(injector)
        injector.load(one.planned(0))
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
