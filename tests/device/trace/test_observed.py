"""Hostile tests of this tier have observers: what they make is traced and captured."""

import pytest

pytestmark = pytest.mark.hostile


def test_traffic_is_traced(observers, node, qps):
    qps[1].post_recv()
    qps[0].send()
    node.settle()
    assert len(qps[1].cq.drain()) == 1
    assert (node.function.tracer is None) == (observers is None)
    assert observers is None or observers.sink.count > 10


def test_packets_are_captured(observers, wire):
    assert (wire.watcher is None) == (observers is None)


@pytest.mark.unobserved("it shows the mark")
def test_some_are_not(observers, function):
    assert observers is None
    assert function.tracer is None
