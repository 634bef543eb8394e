"""Counters of single queue pairs, which iproute2's ``rdma statistic`` binds and shows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from helpers.guests import run
from helpers.kernel_log import KernelLog

pytestmark = pytest.mark.guest

PAIR = (Path(__file__).parent / "inside" / "pair.py").read_text()
LINK = "link mlx5_0/1"
SECONDS = 60


class Pair:
    """``inside/pair.py``, running."""

    def __init__(self, guest):
        self._guest = guest
        self._job = guest.popen(["python3", "-c", PAIR], has_input=True)
        (self.qpn,) = map(int, self._lines(1))

    def _lines(self, count):
        end = time.monotonic() + SECONDS
        while bytes(self._job.stdout).count(b"\n") < count:
            assert self._job.status is None, bytes(self._job.stderr).decode()
            assert time.monotonic() < end
            self._guest.run("sleep 0.05").check()
        return bytes(self._job.stdout).decode().splitlines()[:count]

    def write(self, count):
        done = len(bytes(self._job.stdout).splitlines())
        self._job.write(b"\n" * count, SECONDS)
        self._lines(done + count)

    def end(self):
        self._job.close_input()
        assert self._guest.wait(self._job, SECONDS) == 0


def counters(guest):
    """What each bound counter says, by the numbers of its queue pairs."""
    said = json.loads(run(guest, f"rdma -j statistic qp show {LINK}") or "[]")
    return {tuple(one.get("lqpn", one.get("LQPN"))): one for one in said}


def test_a_counter_counts_one_queue_pair(guest):
    log, pair = KernelLog(guest), Pair(guest)
    pair.write(1)  # before there is a counter
    run(guest, f"rdma statistic qp bind {LINK} lqpn {pair.qpn}")
    pair.write(3)
    one = counters(guest)[pair.qpn,]
    assert one["rx_write_requests"] == 3
    run(guest, f"rdma statistic qp unbind {LINK} cntn {one['cntn']} lqpn {pair.qpn}")
    assert (pair.qpn,) not in counters(guest)
    pair.write(1)
    run(guest, f"rdma statistic qp bind {LINK} lqpn {pair.qpn}")
    pair.end()  # with the queue pair goes its counter
    assert (pair.qpn,) not in counters(guest)
    assert log.complaints() == []


def test_queue_pairs_of_a_type_have_a_counter_when_asked(guest):
    log = KernelLog(guest)
    run(guest, f"rdma statistic qp set {LINK} auto type on")
    pair = Pair(guest)
    pair.write(2)
    (qpns,) = [qpns for qpns in counters(guest) if pair.qpn in qpns]
    assert len(qpns) == 2  # both are RC
    assert counters(guest)[qpns]["rx_write_requests"] == 2
    pair.end()
    run(guest, f"rdma statistic qp set {LINK} auto off")
    assert log.complaints() == []
