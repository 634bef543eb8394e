"""Log lines that repeat are counted and summed up; lines of the device name its functions."""

import logging
from typing import ClassVar

import pytest
from click.testing import CliRunner
from helpers import log_lines

from emu.cli.commands.functions.serve import serve
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.objects.domains import Pd
from emu.device.state.hca import HcaOptions
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from emu.server.service.log_lines import INTERVAL_NS, MAX_LINES, filtered
from firmware_cmds import TABLE

log = logging.getLogger("a.device")


@pytest.fixture
def handler():
    with log_lines.written() as handler:
        yield handler


@pytest.fixture
def clock():
    return HandClock()


def complain(count, first=0):
    for number in range(first, first + count):
        log.warning("qp %d: wrong", number)


def test_a_few_are_written(handler, clock):
    with filtered(clock, {}):
        complain(MAX_LINES)
        assert handler.lines == [f"qp {number}: wrong" for number in range(MAX_LINES)]
        assert not clock.waiting()


def test_more_are_counted_and_summed_up_by_the_clock(handler, clock):
    with filtered(clock, {}):
        complain(5000)
        assert len(handler.lines) == MAX_LINES
        clock.advance(INTERVAL_NS - 1)
        assert len(handler.lines) == MAX_LINES
        clock.advance(1)
        (summary,) = handler.lines[MAX_LINES:]
        assert summary == "4980 more lines like this in 10 s, the last: qp 4999: wrong"
        assert not clock.waiting()
        complain(1)
        assert handler.lines[-1] == "qp 0: wrong"


def test_a_flood_that_goes_on_takes_a_few_lines_for_each_interval(handler, clock):
    with filtered(clock, {}):
        for _ in range(100):
            complain(50)
            clock.advance(INTERVAL_NS // 10)
    assert len(handler.lines) <= 11 * (MAX_LINES + 1)
    summed = [int(line.split()[0]) for line in handler.lines if "more lines like this" in line]
    assert sum(summed) + len(handler.lines) - len(summed) == 5000


def test_the_end_of_the_run_says_what_is_left(handler, clock):
    with filtered(clock, {}):
        complain(MAX_LINES + 3)
        clock.advance(2_000_000_000)
    last = MAX_LINES + 2
    summary = f"3 more lines like this in 2 s, the last: qp {last}: wrong"
    assert handler.lines[MAX_LINES:] == [summary]
    complain(100)
    assert len(handler.lines) == MAX_LINES + 1 + 100


def test_kinds_are_apart_and_slow_ones_all_there(handler, clock):
    with filtered(clock, {}):
        complain(1000)
        for number in range(50):
            log.warning("another one: %d", number)
            clock.advance(INTERVAL_NS)
    assert sum("another one" in line for line in handler.lines) == 50


def test_what_was_asked_for_passes(handler, clock):
    logger = logging.getLogger("a.talkative.device")
    logger.setLevel(logging.INFO)
    with filtered(clock, {}):
        for number in range(100):
            logger.info("qp %d", number)
    assert len(handler.lines) == 100


def test_tracebacks_are_counted_too(handler, clock):
    with filtered(clock, {}):
        for _ in range(100):
            try:
                raise ValueError("ours")
            except ValueError:
                log.warning("internal error", exc_info=True)
    assert sum("Traceback" in line for line in handler.lines) == MAX_LINES
    assert handler.lines[-1].startswith("80 more lines like this")


def test_a_long_line_is_cut_where_it_stands_for_others(handler, clock):
    with filtered(clock, {}):
        for _ in range(MAX_LINES + 1):
            log.warning("%s", "x" * 100_000)
    assert len(handler.lines[-1]) < 1000


@pytest.fixture
def functions(clock):
    wire = LocalFabric(clock)
    return [
        Function(
            MODELS["connectx6"], HcaOptions(guid=guid), TABLE, Memory(), IrqList(), clock, wire
        )
        for guid in (1, 2)
    ]


def test_a_line_names_the_function_of_its_object_or_the_served_one(handler, clock, functions):
    first, second = functions
    device, server = logging.getLogger("emu.device.engine.a"), logging.getLogger("emu.server.a")
    pds = [Pd(), Pd()]
    for function, pd in zip(functions, pds):
        function.hca.pds.add(pd)
    clock.served = first
    with filtered(clock, {first: "h1 function 0", second: "h2 function 0"}):
        device.warning("%r: wrong", pds[1])
        device.warning("%r: wrong", Pd())
        device.warning("%d of %s", 4, "10%")
        server.warning("%s is gone", "a client")
        clock.served = None
        device.warning("%r: wrong", pds[0])
        device.warning("wrong")
    device.warning("%r: wrong", pds[0])
    assert handler.lines == [
        f"h2 function 0: {pds[1]!r}: wrong",
        f"h1 function 0: {Pd()!r}: wrong",
        "h1 function 0: 4 of 10%",
        "a client is gone",
        f"h1 function 0: {pds[0]!r}: wrong",
        "wrong",
        f"{pds[0]!r}: wrong",
    ]


def test_a_server_is_not_flooded(handler, clock, monkeypatch, tmp_path):
    class TalkativeServer:
        loop = clock
        functions = ()
        names: ClassVar = {}

        def __init__(self, *_):
            pass

        def run(self):
            complain(1000)

        def close(self):
            log.warning("the last line")

        def complaints(self):
            return []

    monkeypatch.setattr("emu.cli.commands.functions.serve.Server", TalkativeServer)
    result = CliRunner().invoke(serve, ["--socket", str(tmp_path / "socket")])
    assert result.exit_code == 0, result.output
    assert len(handler.lines) == MAX_LINES + 2
    assert handler.lines[-1] == "the last line"
