"""The command register: a function that may not decode its BAR, or may not master the bus.

PCI Express Base 5.0, 7.5.1.1.3. What the driver left in place is still there when it may again.
"""

import pytest
from helpers.device.port_events import port_event_queue

from emu.device.function.msix import MSIX_PBA, MSIX_TABLE
from emu.driver.command.bar import BUS_MASTER, MEMORY_SPACE, enable
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

POWER_CONTROL = 0x44
D3_HOT = b"\x03\0"
D0 = b"\0\0"
CMDQ_ADDR_H = 0x10
CMD_DBELL = 0x18
VECTOR = 5


@pytest.fixture
def port_events(driver, function):
    """An EQ for port events, and a function that raises one."""
    return port_event_queue(driver, function, vector=VECTOR)


def pending(function):
    return int.from_bytes(function.bar_read(0, MSIX_PBA, 8), "little")


def sleep_in_d3(function):
    function.config_write(POWER_CONTROL, D3_HOT)


NOT_DECODING = {
    "memory space off": lambda function: enable(function, BUS_MASTER),
    "D3hot": sleep_in_d3,
}
NOT_MASTERING = {
    "bus master off": lambda function: enable(function, MEMORY_SPACE),
    "D3hot": sleep_in_d3,
}


def wake(function):
    function.config_write(POWER_CONTROL, D0)
    enable(function)


@pytest.fixture(params=NOT_DECODING)
def stop_decoding(request):
    return NOT_DECODING[request.param]


@pytest.fixture(params=NOT_MASTERING)
def stop_mastering(request):
    return NOT_MASTERING[request.param]


# Memory space.


def test_bar_is_not_decoded_after_power_on(function):
    assert function.bar_read(0, 0, 8) == b"\xff" * 8


def test_reads_find_nobody(driver, function, stop_decoding):
    stop_decoding(function)
    for offset in (0, 0x1FC, MSIX_TABLE, MSIX_PBA, driver.uar << 12, function.bar_sizes[0] - 4):
        assert function.bar_read(0, offset, 4) == b"\xff" * 4


def test_writes_are_lost(driver, function, stop_decoding):
    """Of a register, of the vector table, and of a doorbell."""
    places = (CMDQ_ADDR_H, MSIX_TABLE)
    before = [driver.bar.read(place, 4) for place in places]
    driver.submit(Op.QUERY_ADAPTER.to_bytes(2, "big") + bytes(14), 272)
    entry = driver.memory.read(driver.queue, 64)
    stop_decoding(function)
    for place in places:
        function.bar_write(0, place, b"\x12\x34\x56\x78")
    driver.write32(CMD_DBELL, 1)
    driver.bar.settle()
    wake(function)
    assert [driver.bar.read(place, 4) for place in places] == before
    driver.bar.settle()
    assert driver.memory.read(driver.queue, 64) == entry


def test_driver_goes_on_when_decoding_does(driver, function, stop_decoding):
    pdn = driver.alloc_pd()
    stop_decoding(function)
    wake(function)
    driver.must(Op.DEALLOC_PD, pd=pdn)


# Bus mastering.


def test_command_is_not_fetched(driver, function, stop_mastering, caplog):
    driver.submit(Op.QUERY_ADAPTER.to_bytes(2, "big") + bytes(14), 272)
    driver.write32(CMD_DBELL, 1)
    before = driver.memory.contents()
    stop_mastering(function)
    driver.bar.settle()
    assert driver.memory.contents() == before
    assert "bus mastering is off" in caplog.text
    wake(function)
    driver.must(Op.QUERY_ADAPTER)


def test_event_is_not_written(driver, function, port_events, irqs, stop_mastering):
    port_events.arm()
    before = driver.memory.contents()
    stop_mastering(function)
    port_events.raise_one()
    assert driver.memory.contents() == before
    wake(function)
    assert irqs.fired == []
    port_events.raise_one()
    assert irqs.fired == [VECTOR]
    assert port_events.next().type == EventType.PORT_CHANGE


def test_vector_is_latched_and_sent_later(driver, function, port_events, irqs):
    """An event that waits raises its vector when the queue is armed."""
    port_events.raise_one()
    enable(function, MEMORY_SPACE)
    port_events.arm()
    assert irqs.fired == []
    assert pending(function) == 1 << VECTOR
    enable(function)
    assert irqs.fired == [VECTOR]
    assert pending(function) == 0


@pytest.mark.parametrize("ends", ["two functions", "packets"], indirect=True)
def test_message_to_a_function_that_may_not_write(ends, stop_mastering):
    """The bytes stay where they are, and the sender is told."""
    left, right = ends
    channel = Channel(QpType.RC, left, right)
    source, target = left.region(64), right.region(64)
    source.write(b"x" * 64)
    channel.write((target.key, target.va), source.sge())
    before = right.memory.contents()
    stop_mastering(right.function)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert right.memory.contents() == before
