"""The cable of one function: what it carries, and what a function that fails costs the others."""

from types import SimpleNamespace

import pytest

from emu.device.engine.eth.rx_credits import MANY
from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.rounds.budget import Budget
from emu.driver.world.clock import HandClock
from emu.server.net.eth import function_port
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch

A, B = b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2"


class Hca:
    """As much of a function as its cable knows."""

    def __init__(self, port):
        self.port = port
        self.nic_vport = SimpleNamespace(is_up=True)
        self.eth = SimpleNamespace(flow=FlowControl())
        self.health = SimpleNamespace(has_failed=False, fail=self.fail)
        self.got = []
        self.switch = SimpleNamespace(receive=self.got.append)
        self.link_partner = SimpleNamespace(credit=0)
        self.adapter = SimpleNamespace(nodes=lambda: [self])
        self.budget = Budget()

    def fail(self):
        self.health.has_failed = True


@pytest.fixture
def nodes():
    switch = SegmentSwitch(HandClock())
    nodes = []
    for number in range(2):
        hca = Hca(FunctionPort(f"function {number}", switch))
        hca.port.attach(hca)
        nodes.append(hca)
    return nodes


FRAME = Frame((B + A + b"\x88\xb5").ljust(60, b"\0"))


def test_a_frame_reaches_the_other_function(nodes):
    one, two = nodes
    one.port.transmit(one, FRAME)
    assert (one.got, two.got) == ([], [FRAME])
    assert (one.port.received, two.port.sent) == (1, 1)


def test_a_link_that_is_down_carries_nothing(nodes):
    one, two = nodes
    two.nic_vport.is_up = False
    one.port.transmit(one, FRAME)
    one.nic_vport.is_up, two.nic_vport.is_up = False, True
    one.port.transmit(one, FRAME)
    assert two.got == []
    assert (one.port.dropped["down"], two.port.dropped["down"]) == (1, 1)


def test_after_a_reset_the_new_state_has_the_cable(nodes):
    one, two = nodes
    new = Hca(two.port)
    two.port.attach(new)
    one.port.transmit(one, FRAME)
    two.port.transmit(two, FRAME)
    assert (len(two.got), len(new.got), len(one.got)) == (0, 1, 0)


@pytest.mark.hostile
def test_a_receiver_that_fails_does_not_stop_the_sender(nodes):
    one, two = nodes

    def fail(frame):
        raise ZeroDivisionError

    two.switch.receive = fail
    one.port.transmit(one, FRAME)
    assert two.health.has_failed
    assert not one.health.has_failed
    one.port.transmit(one, FRAME)
    assert two.port.dropped["down"] == 1


def test_both_directions_can_be_watched(nodes):
    one, two = nodes
    seen = []

    class Watcher:
        def sent(self, port, frame, carry):
            seen.append((True, frame))
            carry()

        def received(self, hca, frame, carry):
            seen.append((False, frame))
            carry()

    one.port.watcher = Watcher()
    one.port.transmit(one, FRAME)
    answer = Frame((A + B + b"\x88\xb5").ljust(60, b"\0"))
    two.port.transmit(two, answer)
    assert seen == [(True, FRAME), (False, answer)]
    assert (one.got, two.got) == ([answer], [FRAME])


def test_a_function_without_receive_requests_is_waited_for_but_not_for_long(nodes, monkeypatch):
    one, _two = nodes
    left = {"room": 5}
    monkeypatch.setattr(function_port, "emptiest", lambda hca: (left["room"], MANY))
    now, patience = 1_000_000_000, one.eth.flow.patience_ns
    assert one.port.credits(now) == 5
    left["room"] = 0
    assert one.port.credits(now) == 0
    assert one.port.credits(now + patience) == 0
    now += patience + 1
    assert one.port.credits(now) == MANY
    assert one.port.credits(now + function_port.IGNORED_NS - 1) == MANY
    assert one.port.credits(now + function_port.IGNORED_NS) == 0
    left["room"] = 1
    assert one.port.credits(now + function_port.IGNORED_NS) == 1
    one.nic_vport.is_up = False
    left["room"] = 0
    assert one.port.credits(now + function_port.IGNORED_NS) == MANY


def test_pause_frames_are_counted_while_a_function_is_waited_for(nodes, monkeypatch):
    one, _two = nodes
    left = {"room": 0}
    monkeypatch.setattr(function_port, "emptiest", lambda hca: (left["room"], MANY))
    sent, now = one.eth.flow.sent, 1_000_000_000
    assert [one.port.credits(now), one.port.credits(now + 1000)] == [0, 0]
    assert (sent.global_, sent.control) == (1, 1)
    left["room"] = 1
    assert [one.port.credits(now + 5000), one.port.credits(now + 6000)] == [1, 1]
    assert (sent.global_, sent.frames, sent.duration_ns) == (2, [2] * 8, [5000] * 8)


def test_a_function_that_sends_no_pause_frames_is_not_waited_for(nodes, monkeypatch):
    one, _two = nodes
    monkeypatch.setattr(function_port, "emptiest", lambda hca: (0, MANY))
    flow = one.eth.flow
    flow.pause_tx = False
    assert one.port.credits(1_000_000_000) == MANY
    flow.pfc_tx = 1 << 3
    assert one.port.credits(1_000_000_000) == 0
    assert (flow.sent.global_, flow.sent.frames) == (0, [0, 0, 0, 1, 0, 0, 0, 0])


@pytest.mark.pure("its adapter is a fake, and credits expire in the engine")
def test_one_function_waits_for_another_if_both_want_to(nodes, monkeypatch):
    """What one frame of 64 packets may need, or half of a queue that is smaller."""
    one, two = nodes
    left = {"room": (100, 1024)}
    monkeypatch.setattr(function_port, "emptiest", lambda hca: left["room"])
    for node, frame in ((one, FRAME), (two, Frame((A + B + b"\x88\xb5").ljust(60, b"\0")))):
        node.port.transmit(node, frame)

    def credits(packets=64, priority=0, to=B):
        return one.port.credits_to(to, packets, one.eth.flow, priority)

    assert credits() == 100
    assert credits(101) == 0
    left["room"] = (32, 64)
    assert credits() == 32
    left["room"] = (31, 64)
    assert credits() == 0
    two.health.has_failed = True
    assert credits() == MANY
    two.health.has_failed = False
    assert credits(to=A) == credits(to=bytes(6)) == MANY
    one.eth.flow.pause_rx = False
    assert credits() == MANY
    one.eth.flow.pfc_rx = two.eth.flow.pfc_tx = 1 << 3
    assert credits() == MANY
    assert credits(priority=3) == 0
    two.eth.flow.pfc_tx = two.eth.flow.pause_tx = 0
    assert credits(priority=3) == MANY


def test_the_driver_says_how_long_others_wait(nodes, monkeypatch):
    one, _two = nodes
    flow, now = one.eth.flow, 1_000_000_000
    monkeypatch.setattr(function_port, "emptiest", lambda hca: (0, MANY))
    flow.critical_ms, flow.minor_ms = 100, 80
    assert [one.port.credits(now), one.port.credits(now + 100_000_000)] == [0, 0]
    assert one.port.credits(now + 100_000_001) == MANY
    assert (flow.storms, flow.warnings, flow.sent.global_) == (1, 1, 2)
    flow.critical_ms = 0
    assert flow.patience_ns == 8_000_000_000
