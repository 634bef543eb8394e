"""Nothing that a guest repeats fills the log."""

import logging

import pytest
from helpers import log_lines

from emu.driver.verbs.parts import Parts
from emu.server.service.log_lines import MAX_LINES, filtered
from layouts.enums.cmd import Op
from layouts.enums.qp import QpState

pytestmark = pytest.mark.hostile

TIMES = 500


@pytest.fixture
def written():
    with log_lines.written(logging.WARNING) as handler:
        yield handler.lines


def ring(driver, offset, data):
    driver.bar.write(driver.uar * 4096 + offset, data)


def nowhere(driver):
    ring(driver, 0x800, bytes(4) + (0x777 << 8).to_bytes(4, "big"))


def no_uar(driver):
    driver.bar.write((driver.uar + 1) * 4096 + 0x800, bytes(8))


def no_cq(driver):
    ring(driver, 0x20, bytes(4) + (0x777).to_bytes(4, "big"))


def no_eq(driver):
    ring(driver, 0x40, bytes((63, 0, 0, 1)))


def not_its_slot(driver):
    driver.ring(1 << 9)


def refused(driver):
    driver.command(Op.DEALLOC_PD, pd=0x777)


def undeliverable(driver):
    driver.submit(bytes(16), 4, slot=5)
    driver.ring(1 << 5)


def broken_ring(driver):
    qpn = Parts(driver).make(QpState.RTS)
    qp = driver.bar.function.hca.qps.get(qpn)
    driver.memory.write(qp.ctx.dbr_addr, b"\0\0\x7f\xff" * 2)
    ring(driver, 0x800, bytes(4) + (qpn << 8).to_bytes(4, "big"))
    driver.bar.settle()
    driver.must(Op.DESTROY_QP, qpn=qpn)


@pytest.mark.parametrize(
    "wrong", [nowhere, no_uar, no_cq, no_eq, not_its_slot, refused, undeliverable, broken_ring]
)
def test_wrong_again_and_again(driver, clock, written, wrong):
    times = 30 if wrong is broken_ring else TIMES
    with filtered(clock, {}):
        for _ in range(times):
            wrong(driver)
        before = len(written)
        assert 1 <= before <= 2 * MAX_LINES
        clock.advance(10_000_000_000)
    left_out = sum(int(line.split()[0]) for line in written[before:])
    assert before + left_out >= times
