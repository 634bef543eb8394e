"""Fixtures of a real function on fake ports, and of a driver that has brought it up.

For tests/device, and for the tests that look inside the engine while it works
(tests/unit/device/engine).
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

import pytest

import emu
import firmware_cmds
from emu.device.cmdif.reasons import collect
from emu.device.errors import CmdError
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.roce import on_a_cable, on_one_segment
from emu.driver.nodes.two_nodes import GUID, two_nodes
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from helpers.device.observed import Observers
from helpers.device.snapshot import snapshot
from layouts.enums.qp import QpType


@pytest.fixture(autouse=True)
def observers(request, monkeypatch):
    """Give hostile tests a tracer of every function that they make, and a capture of every wire.

    Tests with the mark ``unobserved`` have none: they count the steps of rounds, for example.
    """
    marked = request.node.get_closest_marker
    if marked("hostile") is None or marked("unobserved") is not None:
        yield None
        return
    observers = Observers()
    observers.install(monkeypatch)
    yield observers
    observers.close()


@pytest.fixture(autouse=True)
def every_refusal_is_explained(monkeypatch):
    """`mlx5emu explain` knows every reason that the device gives, however it was put together."""
    reasons, make = set(), CmdError.__init__

    def made(self, status, reason, detail=""):
        make(self, status, reason, detail)
        if not sys._getframe(1).f_globals["__name__"].startswith(("test", "helpers")):
            reasons.add(reason)

    monkeypatch.setattr(CmdError, "__init__", made)
    yield
    if reasons:
        assert reasons <= {reason.text for reason in collect(emu, firmware_cmds)}


@pytest.fixture(autouse=True)
def no_errors(caplog):
    """An ERROR in the log is a bug of the emulator, whatever the driver was told."""
    caplog.set_level(logging.INFO)
    yield
    found = [*caplog.get_records("setup"), *caplog.get_records("call")]
    errors = [record for record in found if record.levelno >= logging.ERROR]
    assert not errors, errors[0].getMessage()


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def irqs():
    return IrqList()


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def wire(clock):
    return LocalFabric(clock)


@pytest.fixture
def eth_wire():
    """What an Ethernet function's cable is plugged into; None leads nowhere."""
    return None


@pytest.fixture
def options():
    return HcaOptions(guid=GUID)


@pytest.fixture
def limits():
    """General capabilities that a test wants other than the model's: smaller tables, mostly."""
    return {}


@pytest.fixture
def scheme():
    """How the device pages on demand; a test of paging parametrizes it to have another."""
    return MODELS["connectx6"].odp


@pytest.fixture
def model(limits, scheme):
    full = MODELS["connectx6"]
    if not limits and scheme is full.odp:
        return full  # whose capability pages are made once
    return replace(full, general={**full.general, **limits}, odp=scheme)


@pytest.fixture
def function(model, memory, irqs, clock, options, wire, eth_wire):
    return Function(model, options, TABLE, memory, irqs, clock, wire, eth_wire=eth_wire)


@pytest.fixture
def cold(function, memory, irqs):
    """A driver that has done nothing yet."""
    return Driver(FunctionBar(function), memory, irqs)


@pytest.fixture
def driver(cold):
    """A driver after its probe."""
    return cold.probe()


@pytest.fixture
def refused(driver, function):
    """Runs a command that has to be refused with the given status, and to leave no trace."""

    def check(status, op, **fields):
        before = snapshot(function.hca)
        answer = driver.command(op, **fields)
        assert (answer.delivery, answer.status) == (0, status)
        assert answer.syndrome
        assert snapshot(function.hca) == before
        return answer

    return check


@pytest.fixture
def node(function, driver):
    """The function as a verbs provider sees it."""
    return Node(function, driver)


@pytest.fixture
def qps(node):
    """Two connected queue pairs of one function."""
    pair = node.queue_pair(), node.queue_pair()
    connect(*pair)
    return pair


@pytest.fixture
def pair(model, clock, wire):
    """Two functions on one fabric, each with a guest of its own."""
    return two_nodes(model, clock, wire)


@pytest.fixture
def packet_wire():
    """A wire that carries packets, and nothing else, between all functions."""
    return PacketWire()


@pytest.fixture
def packet_pair(model, clock, packet_wire):
    """Two functions that reach each other by packets only."""
    return two_nodes(model, clock, packet_wire, packet_wire)


@pytest.fixture(params=["one function", "two functions", "packets"])
def ends(request):
    """Where the two ends of a test's traffic are: (left node, right node)."""
    if request.param == "two functions":
        return tuple(request.getfixturevalue("pair"))
    if request.param == "packets":
        return tuple(request.getfixturevalue("packet_pair"))
    return (request.getfixturevalue("node"),) * 2


@pytest.fixture(params=["one function", "two functions", "frames"])
def roce_ends(request, clock):
    """As ``ends``, with Ethernet functions."""
    if request.param == "frames":
        return tuple(on_a_cable(clock))
    return (
        tuple(on_one_segment(clock))
        if request.param == "two functions"
        else (*on_one_segment(clock, 1) * 2,)
    )


@pytest.fixture
def service():
    """The transport service of a test's traffic; a test parametrizes it to have another."""
    return QpType.RC


@pytest.fixture
def channel(service, ends):
    """Two connected ends, by the test's service."""
    return Channel(service, *ends)
