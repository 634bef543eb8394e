"""Cost of a firmware command, without a guest and without a transport.

A driver in the same process creates memory keys. The program measures the cost of a command, in
total and in the device alone. Further results are the ratio of the last commands to the first, and
the memory of a key. Prints a table, and JSON with --json.
"""

from __future__ import annotations

import logging
import statistics
import time

import click
from figures import Goal, Row, Section
from objects import bytes_of_each
from tables import json_option, show

from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE

MODEL = "connectx6"
WARM_UP = 500
MAX_US = 150.0
MAX_GROWTH = 1.3
MAX_KIB = 2.0


class TimedBar(FunctionBar):
    """Bar that also measures the device's work after the last doorbell."""

    device_ns = 0

    def settle(self) -> None:
        start = time.perf_counter_ns()
        super().settle()
        self.device_ns = time.perf_counter_ns() - start


def probed_driver() -> tuple[Driver, TimedBar]:
    """Return a driver that has initialized a new function, and its BAR."""
    memory, irqs, clock = Memory(), IrqList(), HandClock()
    options = HcaOptions(guid=1)
    function = Function(MODELS[MODEL], options, TABLE, memory, irqs, clock, LocalFabric(clock))
    bar = TimedBar(function)
    return Driver(bar, memory, irqs).probe(), bar


def create_keys(
    driver: Driver, bar: TimedBar, pdn: int, count: int
) -> tuple[list[float], list[float]]:
    """Return the microseconds of each of ``count`` commands: in total, and in the device."""
    whole, device = [], []
    for _ in range(count):
        start = time.perf_counter_ns()
        driver.create_mkey(pdn)
        whole.append((time.perf_counter_ns() - start) / 1000)
        device.append(bar.device_ns / 1000)
    return whole, device


def bytes_of_a_key(count: int) -> float:
    """Return the memory that each of ``count`` keys adds to the process."""
    driver, bar = probed_driver()
    pdn = driver.alloc_pd()
    create_keys(driver, bar, pdn, WARM_UP)
    return bytes_of_each(lambda _: driver.create_mkey(pdn), count)


def measure(keys: int, traced: int) -> Section:
    """Return all rows."""
    driver, bar = probed_driver()
    pdn = driver.alloc_pd()
    create_keys(driver, bar, pdn, WARM_UP)
    whole, device = create_keys(driver, bar, pdn, keys)
    tenth = keys // 10
    growth = statistics.median(whole[-tenth:]) / statistics.median(whole[:tenth])
    return Section(
        "commands",
        "Firmware commands, in process",
        [
            Row("CREATE_MKEY, driver and device", "us", whole, goal=Goal(MAX_US)),
            Row("CREATE_MKEY, the device's share", "us", device),
            Row(f"last tenth of {keys:,} to the first", "x", [growth], goal=Goal(MAX_GROWTH)),
            Row("memory of a key", "KiB", [bytes_of_a_key(traced) / 1024], goal=Goal(MAX_KIB)),
        ],
    )


@click.command(help=__doc__)
@click.option("--keys", default=100_000, show_default=True, help="Memory keys to create.")
@click.option("--traced", default=20_000, show_default=True, help="Keys to measure memory by.")
@json_option
def main(keys: int, traced: int, as_json: bool) -> None:
    """Measure."""
    logging.disable(logging.WARNING)
    section = measure(keys, traced)
    show([section], as_json=as_json)


if __name__ == "__main__":
    main()
