"""An IPoIB interface as ethtool and ip show and change it (core/ipoib/ethtool.c, ipoib.c)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, pings, run
from helpers.guest.ipoib import THERE, two_interfaces

pytestmark = pytest.mark.guest

STAMPS = Path(__file__).parents[1] / "inside" / "hardware_stamps.py"
PORT = 4660
DATAGRAM = f'python3 -c \'import socket as s; s.socket(2, 2).sendto(b"x", ("{THERE}", {PORT}))\''
IGNORED = f"{IN_PEER}nstat -az UdpNoPorts | sed -n s/^UdpNoPorts//p"


@pytest.fixture(scope="module")
def guest(lab, suite):
    with two_interfaces(lab, suite) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    with no_complaints(guest):
        yield


def test_speed(guest):
    """Four lanes of HDR, as the port's register PTYS says."""
    said = run(guest, "ethtool ib0")
    assert "Speed: 200000Mb/s" in said
    assert "Link detected: yes" in said


@pytest.mark.parametrize(
    ("change", "show", "found"),
    [
        ("-G ib0 rx 256 tx 256", "-g ib0", r"Current.*RX:\s+256\n.*TX:\s+256\n"),
        ("-L ib0 combined 1", "-l ib0", r"Current.*Combined:\s+1\n"),
        # What adaptive-rx changes has its defaults again.
        (
            "-C ib0 adaptive-rx off adaptive-tx off; ethtool -C ib0 rx-usecs 5 tx-usecs 6",
            "-c ib0",
            r"rx-usecs:\s+5\n.*tx-usecs:\s+6\n",
        ),
    ],
    ids=["rings", "channels", "coalescing"],
)
def test_queues_change_under_traffic(guest, change, show, found):
    job = guest.popen(f"exec ping -q -i 0.01 -c 300 {THERE}")
    run(guest, f"ethtool {change}")
    assert re.search(found, run(guest, f"ethtool {show}"), re.DOTALL)
    assert guest.wait(job, timeout=240) == 0, job.stderr.decode()
    pings(guest, THERE, 3)


def test_smaller_mtu(guest):
    """What is larger comes in fragments, though the fabric's MTU would take it."""
    run(guest, f"ip link set ib0 mtu 2044; {IN_PEER}ip link set ib1 mtu 2044")
    pings(guest, f"-s 2016 -M do {THERE}", 3)
    assert guest.run(f"ping -c 1 -W 1 -s 2017 -M do {THERE}").status
    pings(guest, f"-s 4000 {THERE}", 3)
    run(guest, f"ip link set ib0 mtu 4092; {IN_PEER}ip link set ib1 mtu 4092")
    pings(guest, f"-s 4064 -M do {THERE}", 3)


def test_a_rule_drops_datagrams(guest):
    """A steering rule of ethtool: while there is one, UDP's datagrams of a port do not come."""

    def ignored():
        run(guest, DATAGRAM)
        pings(guest, THERE, 1)
        return int(float(run(guest, IGNORED).split()[0]))

    before = ignored()
    assert ignored() == before + 1
    rule = f"ethtool -N ib1 flow-type udp4 dst-port {PORT}"
    run(guest, f"{IN_PEER}{rule} action -1 loc 3")
    shown = run(guest, f"{IN_PEER}ethtool -n ib1")
    assert f"Dest port: {PORT}" in shown
    assert "Action: Drop" in shown
    assert ignored() == before + 1
    run(guest, f"{IN_PEER}ethtool -N ib1 delete 3")
    assert ignored() == before + 2


def test_rules_about_ethernet_are_refused(guest):
    said = guest.run("ethtool -N ib0 flow-type ether dst 02:00:00:00:00:05 action 0")
    assert "Cannot insert RX class rule: Invalid argument" in said.stderr
    assert "Total 0 rules" in run(guest, "ethtool -n ib0")


def test_time_stamps(guest):
    """Datagrams have the adapter's, sent and received."""
    assert "hardware-raw-clock" in run(guest, "ethtool -T ib0")
    guest.run("cat > /tmp/hardware_stamps.py", stdin=STAMPS.read_bytes()).check()
    program = "python3 /tmp/hardware_stamps.py"
    server = guest.popen(f"exec {IN_PEER}timeout 240 {program} receive ib1 {THERE} {PORT}")
    run(guest, f"until {IN_PEER}ss -Hlun sport = :{PORT} | grep -q {PORT}; do sleep 0.1; done")
    sent = run(guest, f"{program} send ib0 {THERE} {PORT}").split()
    assert guest.wait(server, timeout=240) == 0, server.stderr.decode()
    for found in (sent, server.stdout.decode().split()[1:]):
        assert len(found) == 10
        assert all(0 <= float(apart) < 5 for apart in found)
