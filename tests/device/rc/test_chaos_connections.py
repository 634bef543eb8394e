"""Failures of chaos that strike messages of connected queue pairs."""

import pytest

from emu.device.faults.injector import Injector
from emu.driver.verbs.channels import Channel
from emu.host import shipped
from emu.instruments.chaos.sets import read_sets
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

MESSAGES = 400
BYTES = 1000
ROUNDS = 3
"""Rounds of the devices for a message and its acknowledgement."""
ELSEWHERE = {"page-fault-fails", "rate-10-mbit"}
"""Failures of paged memory, and of a link, which is no rule."""
OF_PROGRAMS = {"event-lost", "queue-pair-refused", "connection-refused"}
"""Failures of objects that a program owns; the driver owns those of this module."""
FAILURES = {
    name: {one.name: one for one in read_sets([shipped.example("failure set", name)])}
    for name in ("verbs", "kernel")
}


def exchange(nodes, clock, is_over):
    """Connect the nodes and send messages both ways, one by one."""
    channels = [Channel(QpType.RC, *ends) for ends in (nodes, nodes[::-1])]
    regions = [node.region(4096) for node in nodes]
    for _ in range(MESSAGES):
        for channel, source, target in zip(channels, regions, regions[::-1]):
            channel.recv_cq.arm()
            channel.post_recv(target.sge(0, BYTES))
            channel.send(source.sge(0, BYTES))
            for _ in range(ROUNDS):
                for node in nodes:
                    node.settle()
                clock.advance(1_000_000)
            for cq in (channel.sender.cq, channel.recv_cq):
                cq.drain()
                cq.events()
        if is_over():
            return


@pytest.mark.parametrize(
    ("name", "failure"), [(name, failure) for name, one in FAILURES.items() for failure in one]
)
def test_each_failure_strikes_connections(pair, clock, name, failure):
    """A new failure strikes them, or somebody decides that connections do not have it."""
    injectors = [Injector(node.function, number) for number, node in enumerate(pair)]
    for node, injector in zip(pair, injectors):
        node.driver.create_eq(events=[EventType.PORT_CHANGE])
        node.function.use_faults(injector)
        injector.load(FAILURES[name][failure].planned(0))

    def is_struck():
        return any(rule["fired"] for one in injectors for rule in one.listing())

    try:
        exchange(pair, clock, is_struck)
    except Exception:
        if not is_struck():
            raise
    others = ELSEWHERE | OF_PROGRAMS if name == "verbs" else ELSEWHERE
    assert is_struck() == (failure not in others)
