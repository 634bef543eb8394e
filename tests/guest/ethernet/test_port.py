"""The port as ethtool, dcb and hwmon show and change it: modes, buffers, checks, sensors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    no_complaints,
    pings,
    prepared,
    run,
    two_namespaces,
)

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

HERE, THERE = "10.0.0.1", "10.0.0.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE)
DOWN = "ip netns del peer"
CARRIER = "until grep -q 1 /sys/class/net/eth0/carrier; do sleep 0.1; done"
REFUSED = re.compile(r"Not supported link mode|not enough for lossless buffer")
"""What the driver says of wishes that it refuses."""
CHECK_SEQUENCE = Path(__file__).parents[1] / "inside" / "check_sequence.py"


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = GuestOptions(suite=suite, devices=("connectx6dx", "connectx7,link=eth"))
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/check_sequence.py", stdin=CHECK_SEQUENCE.read_bytes()).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest, known=REFUSED):
        yield


def settings(guest):
    return run(guest, "ethtool eth0")


def arrives(guest, size=1400):
    pings(guest, f"-s {size} {THERE}")


def test_cable_and_slot(guest):
    said = run(guest, "dmesg")
    assert said.count("Port module event: module 0, Cable plugged") == 2
    assert "PCIe slot power capability was not advertised" in said


class TestSpeed:
    def test_modes_of_a_real_card(self, guest):
        said = settings(guest)
        for mode in ("10000baseKR", "25000baseCR", "50000baseKR", "100000baseKR2"):
            assert f"{mode}/Full" in said
        assert "200000baseKR4" not in said
        assert "400000baseKR4/Full" in run(guest, f"{IN_PEER}ethtool eth1")

    @pytest.mark.parametrize("speed", [10_000, 25_000, 50_000, 100_000])
    def test_without_negotiation(self, guest, speed):
        run(guest, f"ethtool -s eth0 speed {speed} autoneg off; {CARRIER}")
        assert f"Speed: {speed}Mb/s" in settings(guest)
        assert "Auto-negotiation: off" in settings(guest)
        arrives(guest)

    def test_negotiated(self, guest):
        run(guest, f"ethtool -s eth0 autoneg on; {CARRIER}")
        assert "Speed: 100000Mb/s" in settings(guest)
        assert "Auto-negotiation: on" in settings(guest)

    def test_one_that_the_port_has_not(self, guest):
        assert guest.run("ethtool -s eth0 speed 400000 autoneg off", timeout=SECONDS).status
        assert "Speed: 100000Mb/s" in settings(guest)


class TestCheckSequences:
    def test_behind_packets(self, guest):
        run(guest, f"{IN_PEER}ethtool -K eth1 rx-fcs on")
        program = "python3 /tmp/check_sequence.py"
        server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} {program} receive eth1")
        run(guest, f"until {IN_PEER}grep -q 88b5 /proc/net/packet; do sleep 0.1; done")
        run(guest, f"{program} send eth0")
        assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
        assert server.stdout.decode().split() == ["118", "fits"]
        arrives(guest)
        run(guest, f"{IN_PEER}ethtool -K eth1 rx-fcs off")
        arrives(guest)

    def test_not_checked(self, guest):
        run(guest, f"{IN_PEER}ethtool -K eth1 rx-all on")
        assert "rx-all: on" in run(guest, f"{IN_PEER}ethtool -k eth1")
        arrives(guest)
        run(guest, f"{IN_PEER}ethtool -K eth1 rx-all off")


def dcb(guest, command):
    """Run ``dcb``, once more if that fails.

    iproute2 6.1 numbers its requests by the clock's second, and sometimes gives up with "Protocol
    error", libmnl's word for a reply with another number.
    """
    return run(guest, f"dcb {command} || dcb {command}")


class TestBuffers:
    def test_sizes_and_priorities(self, guest):
        dcb(guest, "buffer set dev eth0 buffer-size all:0 0:129600 1:129600")
        dcb(guest, "buffer set dev eth0 prio-buffer all:0 3:1")
        said = dcb(guest, "buffer show dev eth0")
        assert "3:1" in said
        assert "0:129600b 1:129600b 2:0b" in said
        dcb(guest, "pfc set dev eth0 prio-pfc all:off 3:on")
        run(guest, CARRIER)
        arrives(guest)
        dcb(guest, "pfc set dev eth0 prio-pfc all:off")
        run(guest, CARRIER)
        dcb(guest, "buffer set dev eth0 prio-buffer all:0")

    def test_a_buffer_without_room(self, guest):
        """With pause frames no buffer may lose anything, so each needs room."""
        run(guest, "ethtool -A eth0 rx on tx on")
        guest.run("dcb buffer set dev eth0 prio-buffer 5:6", timeout=SECONDS)  # 6.1's is content
        assert "buffer_size[6]=0 is not enough for lossless buffer" in run(guest, "dmesg")
        assert "5:0" in run(guest, "dcb buffer show dev eth0")


def test_counters(guest):
    said = run(guest, "ethtool -S eth0")
    for name in (
        "rx_pci_signal_integrity", "outbound_pci_buffer_overflow", "outbound_pci_stalled_wr_events",
        "module_unplug", "rx_prio7_buf_discard", "rx_prio0_cong_discard", "rx_err_lane_3_phy",
        "rx_buffer_passed_thres_phy",
    ):  # fmt: skip
        assert re.search(rf" {name}: 0$", said, re.M)


def test_temperature(guest, suite):
    """hwmon came with Linux 6.5."""
    names = run(guest, "cat /sys/class/hwmon/*/name || true").split()
    assert names.count("mlx5") == (0 if suite == "bookworm" else 2)
    if suite != "bookworm":
        said = run(guest, "cd /sys/class/hwmon/hwmon0 && cat temp1_label temp1_input temp1_crit")
        assert said.split() == ["asic", "50000", "105000"]
        run(guest, "echo 1 > /sys/class/hwmon/hwmon0/temp1_reset_history")


@pytest.mark.parametrize("ring", [64, 512, 8192])
def test_rings(guest, ring):
    run(guest, f"ethtool -G eth0 rx {ring} tx {ring}")
    assert re.search(rf"Current.*^RX:\s+{ring}$", run(guest, "ethtool -g eth0"), re.M | re.S)
    arrives(guest)
    run(guest, "ethtool -G eth0 rx 1024 tx 1024")
