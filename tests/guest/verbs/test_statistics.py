"""Counters of single queue pairs, which iproute2's ``rdma statistic`` binds and shows."""

from __future__ import annotations

import json

import pytest
from helpers.guest.guest_pair import Pair
from helpers.guest.guests import run
from helpers.guest.kernel_log import KernelLog

pytestmark = pytest.mark.guest

LINK = "link mlx5_0/1"
SECONDS = 60


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
