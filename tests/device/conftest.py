"""A real function on fake ports, and a driver that has brought it up."""

import logging

import pytest
from helpers.driver import Driver, FunctionBar
from helpers.world import HandClock, IrqList, Memory

from emu.function import Function
from emu.hca import HcaOptions
from emu.models import MODELS
from firmware_cmds import TABLE

GUID = 0x0002_C903_00AB_CD01


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
def options():
    return HcaOptions(guid=GUID)


@pytest.fixture
def function(memory, irqs, clock, options):
    return Function(MODELS["connectx6"], options, TABLE, memory, irqs, clock)


@pytest.fixture
def cold(function, memory, irqs):
    """A driver that has done nothing yet."""
    return Driver(FunctionBar(function), memory, irqs)


@pytest.fixture
def driver(cold):
    """A driver after its probe."""
    return cold.probe()


@pytest.fixture(autouse=True)
def no_internal_errors(caplog):
    """An ERROR in the log is a bug of the emulator, whatever the driver was told."""
    caplog.set_level(logging.INFO)
    yield
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not errors, errors[0].getMessage()
