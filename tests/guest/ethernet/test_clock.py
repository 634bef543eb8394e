"""The real-time clock: time stamps in its format, the time of day, pulses, PTP's own queue."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    no_complaints,
    prepared,
    run,
    two_namespaces,
)

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

INSIDE = Path(__file__).parents[1] / "inside"
HERE, THERE = "10.0.0.1", "10.0.0.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE)
DOWN = "ip netns del peer"
PTP_EVENT = 319
SAYS = re.compile("Disabling rxhash, not supported when CQE compress is active")
"""What the driver tells of time stamps beside compressed completions."""
FAR = 5.0
"""Seconds: further from a clock is a wrong format, not a slow guest."""


@pytest.fixture(scope="module")
def guest(lab, suite):
    devices = ("connectx6dx,real_time=1,pps=1", "connectx7,link=eth,real_time=1")
    with prepared(lab, GuestOptions(suite=suite, devices=devices), UP, DOWN) as guest:
        for name in ("clock", "hardware_stamps", "pulses"):
            program = (INSIDE / f"{name}.py").read_bytes()
            guest.run(f"cat > /tmp/{name}.py", stdin=program).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest, known=SAYS):
        yield


def exchange(guest, port):
    """Datagrams with time stamps of both ends: how far they are from the clocks."""
    program = "python3 /tmp/hardware_stamps.py"
    server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} {program} receive eth1 {THERE} {port}")
    run(guest, f"until {IN_PEER}ss -Hlun sport = :{port} | grep -q {port}; do sleep 0.1; done")
    sent = run(guest, f"{program} send eth0 {THERE} {port}").split()
    assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
    received = server.stdout.decode().split()[1:]
    return [[float(text) for text in ends] for ends in (sent, received)]


@pytest.mark.parametrize("port", [5000, PTP_EVENT])
def test_time_stamps(guest, port):
    for found in exchange(guest, port):
        assert len(found) == 10
        assert all(0 <= apart < FAR for apart in found)


def test_stamps_of_the_port(guest):
    """PTP's packets get a queue and a completion queue of their own."""
    run(guest, "ethtool --set-priv-flags eth0 tx_port_ts on")
    sent, _ = exchange(guest, PTP_EVENT)
    assert all(0 <= apart < FAR for apart in sent)
    said = run(guest, "ethtool -S eth0")
    assert re.search(r"ptp_cq0_cqe: 10$", said, re.M)
    assert re.search(r"ptp_tx0_packets: 10$", said, re.M)
    for name in ("err_cqe", "lost_cqe", "late_cqe"):
        assert not re.search(rf"ptp_cq0_{name}: [1-9]", said)
    run(guest, "ethtool --set-priv-flags eth0 tx_port_ts off")


def test_stamps_beside_compressed_completions(guest):
    """A compressed completion has no time stamp, so PTP's packets come to a queue of their own."""
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_cqe_compress on")
    _, received = exchange(guest, PTP_EVENT)
    assert all(0 <= apart < FAR for apart in received)
    assert re.search(r"ptp_rq0_packets: 10$", run(guest, f"{IN_PEER}ethtool -S eth1"), re.M)
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_cqe_compress off")
    exchange(guest, PTP_EVENT)
    assert re.search(r"ptp_rq0_packets: 10$", run(guest, f"{IN_PEER}ethtool -S eth1"), re.M)


@pytest.mark.parametrize("period", [200_000_000, 1_000_000_000])
def test_pulses(guest, period):
    """Out at whole periods of the time of day, and in at the other pin; a busy machine leaves some
    out."""
    found = [int(text) for text in run(guest, f"python3 /tmp/pulses.py eth0 {period} 4").split()]
    for one, other in itertools.pairwise(found):
        assert one // period < other // period <= one // period + 4
    assert all(ns % period < period // 2 for ns in found)


def test_time_of_day(guest):
    """It begins with the system's, can be set and moved, and made faster."""
    found = json.loads(run(guest, "python3 /tmp/clock.py"))
    assert abs(found["apart"]) < FAR
    assert 1000 <= found["set"] < 1000 + FAR
    assert 1500 <= found["moved"] < 1500 + FAR
    assert abs(found["faster"] / found["rate"] - 1.03) < 0.01
