"""Fixtures of an Ethernet function: the function, its cable, the objects that most tests need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emu.device.models import LINKS
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_rq, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op


@pytest.fixture
def base_model():
    """The model of the function, without the test's ``limits``."""
    return LINKS["connectx6"][PortType.ETH]


@pytest.fixture
def model(base_model, limits):
    general = {**base_model.general, **limits}
    return replace(base_model, general=general) if limits else base_model


@pytest.fixture
def eth_wire():
    return TapWire()


@pytest.fixture
def hca(function, driver):
    """The function's state after the driver's probe."""
    assert driver
    return function.hca


@pytest.fixture
def td(driver):
    return alloc_td(driver)


@pytest.fixture
def counter(driver):
    return driver.must(Op.ALLOC_Q_COUNTER).counter_set_id


@pytest.fixture
def rqns(driver):
    """Numbers of four receive queues."""
    return [create_rq(driver) for _ in range(4)]


@pytest.fixture
def flows(driver):
    return Flows(driver)


@pytest.fixture
def cq(node):
    return node.completion_queue()


@pytest.fixture
def sq(node, driver):
    """A send queue whose frames leave through a TIS of its own."""
    return SendQueue(node, tisn=create_tis(driver, alloc_td(driver)))
