"""Ethernet functions under a stock mlx5e: the interface, its tools, packets between two of them.

The second function's interface is in a network namespace of its own, so that packets take the
segment between the functions and not the kernel's loopback.
"""

from __future__ import annotations

import json
import re

import pytest
from helpers.guest.datagrams import talk
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    addresses_ready,
    no_complaints,
    no_complaints_since_boot,
    pings,
    prepared,
    run,
    two_namespaces,
)
from helpers.guest.kernel_log import RECOVERY, KernelLog

from emu.device.models import MODELS
from emu.device.port.eth.vport import mac_of
from emu.device.port.ib.port import BASE_GUID
from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

DEVICES = ("connectx6dx", "connectx6dx-vf")
HERE, THERE = "10.0.0.1", "10.0.0.2"
COUNT = 80
"""Datagrams of each length."""
MACS = [mac_of(BASE_GUID + 16 * number).hex(":") for number in (0, 1)]
LINK_LOCAL_THERE = "fe80::202:c9ff:fee5:10%eth0"

LARGEST_MTU = 9978
"""As of real adapters, whose frames have 10,000 bytes with header, tag and check sequence."""
CARRIER = "until grep -q 1 /sys/class/net/{name}/carrier; do sleep 0.1; done 2>/dev/null"
UP = two_namespaces("eth0", "eth1", HERE, THERE) + addresses_ready("eth0", "eth1")
DOWN = "ip netns del peer"

KNOWN = re.compile("Self test |(C|S)-tag vlan stripping offload")
"""What mlx5e says about nothing that is wrong.

What a self test finds, and what becomes of stripping when a service tag comes.
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up, and nothing left of them afterwards."""
    with prepared(lab, GuestOptions(suite=suite, devices=DEVICES), UP, DOWN) as guest:
        yield guest


def complaints(log):
    return [line for line in log.complaints() if not KNOWN.search(line)]


@pytest.fixture
def quiet(guest):
    """Driver and network stack have nothing to complain of, and the server has not either."""
    with no_complaints(guest, KNOWN):
        yield


def link(guest, name="eth0"):
    (found,) = json.loads(run(guest, f"ip -j link show {name}"))
    return found


def statistics(guest, name="eth0", prefix=""):
    """What ``ethtool -S`` shows."""
    lines = run(guest, f"{prefix}ethtool -S {name}").splitlines()[1:]
    return {key.strip(): int(value) for key, value in (line.split(":") for line in lines)}


def test_boot_and_probe_are_quiet(guest):
    no_complaints_since_boot(guest, known=KNOWN)


@pytest.mark.usefixtures("quiet")
class TestInterface:
    def test_link(self, guest):
        found = link(guest)
        assert {"BROADCAST", "MULTICAST", "UP", "LOWER_UP"} <= {*found["flags"]}
        assert (found["mtu"], found["address"]) == (1500, MACS[0])
        assert link(guest)["operstate"] == "UP"

    def test_adapter(self, guest):
        model = MODELS["connectx6dx"]
        assert "0200: 15b3:101d" in run(guest, "lspci -n")
        said = run(guest, "ethtool -i eth0")
        assert "driver: mlx5_core" in said
        assert f"firmware-version: {model.firmware} ({model.psid})" in said

    def test_settings(self, guest):
        said = run(guest, "ethtool eth0")
        assert "Speed: 100000Mb/s" in said
        assert "Link detected: yes" in said
        assert "QSFP28" in run(guest, "ethtool -m eth0") or "0x0000:\t\t11" in run(
            guest, "ethtool -m eth0 hex on"
        )
        run(guest, "ethtool -T eth0; ethtool -a eth0; ethtool --show-priv-flags eth0")

    def test_flow_control(self, guest):
        """Pause frames for all traffic, or by priority: PFC, which takes the link down and up."""
        run(guest, "ethtool -A eth0 tx off && ethtool -a eth0 | grep -E '^TX:.*off'")
        run(guest, f"dcb pfc set dev eth0 prio-pfc all:off 3:on; {CARRIER.format(name='eth0')}")
        assert "3:on" in run(guest, "dcb pfc show dev eth0 prio-pfc")
        assert statistics(guest)["rx_prio3_pause"] == 0
        run(guest, f"dcb pfc set dev eth0 prio-pfc all:off; {CARRIER.format(name='eth0')}")
        run(guest, "ethtool -A eth0 rx on tx on && ethtool -a eth0 | grep -E '^TX:.*on'")
        pings(guest, THERE)

    def test_priorities(self, guest):
        """By DSCP, once the driver maps one; with it come classes and their shares."""
        ets = "tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:40 1:60 prio-tc 0:1 1:0"
        # Once more: dcb numbers its messages by the second, and takes an answer of the one before
        # for a protocol error.
        run(guest, f"dcb ets set dev eth0 {ets} || dcb ets set dev eth0 {ets}")
        assert "0:40 1:60" in run(guest, "dcb ets show dev eth0 tc-bw")
        run(guest, "dcb app add dev eth0 dscp-prio 26:3")
        before = statistics(guest)["tx_prio3_packets"]
        run(guest, f"ping -c 2 -i 0.2 -W 10 -Q {26 << 2} {THERE}")
        assert statistics(guest)["tx_prio3_packets"] == before + 2
        run(guest, "dcb app del dev eth0 dscp-prio 26:3")

    def test_error_correction(self, guest):
        assert "Active FEC encoding: RS" in run(guest, "ethtool --show-fec eth0")
        run(guest, f"ethtool --set-fec eth0 encoding off; {CARRIER.format(name='eth0')}")
        assert "Active FEC encoding: Off" in run(guest, "ethtool --show-fec eth0")
        run(guest, f"ethtool --set-fec eth0 encoding auto; {CARRIER.format(name='eth0')}")
        assert "corrected_bits: 0" in run(guest, "ethtool -I --show-fec eth0")

    def test_parameters(self, guest):
        """On Linux 7.2 also what the non-volatile configuration has."""
        assert "enable_roce" in run(guest, "devlink dev param show")

    def test_features(self, guest):
        said = run(guest, "ethtool -k eth0")
        for feature in (
            "rx-checksumming", "tx-checksumming", "tcp-segmentation-offload", "receive-hashing",
            "rx-vlan-offload", "tx-vlan-offload", "rx-vlan-filter",
        ):  # fmt: skip
            assert f"{feature}: on" in said

    def test_queues(self, guest):
        """Other numbers and lengths of queues, in use all the while."""
        changes = (
            "-L eth0 combined 1", "-G eth0 rx 256 tx 256", "-C eth0 rx-usecs 8 rx-frames 16",
            "-X eth0 hfunc xor", "-X eth0 hfunc toeplitz", "-K eth0 ntuple on",
            "-K eth0 ntuple off", "-K eth0 rxvlan off", "-K eth0 rxvlan on", "-L eth0 combined 2",
            "-G eth0 rx 1024 tx 1024",
        )  # fmt: skip
        for change in changes:
            run(guest, f"ethtool {change}")
            pings(guest, THERE)

    def test_up_and_down(self, guest):
        run(guest, "for i in $(seq 20); do ip link set eth0 down; ip link set eth0 up; done")
        run(guest, CARRIER.format(name="eth0"))
        pings(guest, THERE)

    def test_self_test(self, guest):
        """Its loopback frame comes back to the own address."""
        assert "result is PASS" in run(guest, "ethtool -t eth0 online")

    @pytest.mark.parametrize("reporter", ["tx", "rx"])
    def test_health(self, guest, reporter):
        said = run(guest, "devlink health show -j")
        (port,) = [name for name in json.loads(said)["health"] if name.endswith("/65535")][:1]
        run(guest, f"devlink health diagnose {port} reporter {reporter}")

    def test_verbs_device(self, guest):
        """Its port is the interface."""
        said = run(guest, "ibv_devinfo -d mlx5_0")
        assert re.search(r"link_layer:\s+Ethernet", said)
        assert re.search(r"state:\s+PORT_ACTIVE", said)


@pytest.mark.usefixtures("quiet")
class TestPackets:
    @pytest.mark.parametrize(
        "ping",
        [
            f"-s 18 {THERE}",
            f"-s 1472 -M do {THERE}",
            f"-s 60000 {THERE}",
            f"-6 {LINK_LOCAL_THERE}",
        ],
        ids=["shortest", "whole MTU", "fragments", "v6"],
    )
    def test_ping(self, guest, ping):
        run(guest, addresses_ready("eth0", "eth1"))  # an answer to one that is tentative is dropped
        pings(guest, ping, 3)

    @pytest.mark.parametrize("offload", ["on", "off"])
    @pytest.mark.parametrize("protocol", ["802.1Q", "802.1ad"])
    def test_vlan(self, guest, protocol, offload):
        add = f"name tagged type vlan id 7 proto {protocol}"
        run(
            guest,
            f"ethtool -K eth0 rxvlan {offload} txvlan {offload};"
            f"ip link add link eth0 {add}; ip address add 10.7.0.1/24 dev tagged;"
            f"ip link set tagged up; ip -n peer link add link eth1 {add};"
            "ip -n peer address add 10.7.0.2/24 dev tagged; ip -n peer link set tagged up",
        )
        try:
            pings(guest, "-s 1400 10.7.0.2", 3)
        finally:
            run(guest, "ip link del tagged; ip -n peer link del tagged")
            run(guest, "ethtool -K eth0 rxvlan on txvlan on")

    @pytest.mark.parametrize("mtu", [9000, LARGEST_MTU])
    def test_jumbo_frames(self, guest, mtu):
        run(guest, f"ip link set eth0 mtu {mtu}; ip -n peer link set eth1 mtu {mtu}")
        try:
            run(guest, CARRIER.format(name="eth0"))
            pings(guest, f"-s {mtu - 28} -M do {THERE}", 3)
        finally:
            run(guest, "ip link set eth0 mtu 1500; ip -n peer link set eth1 mtu 1500")

    def test_other_address(self, guest):
        """It comes into the flow tables, and the own permanent address stays."""
        run(guest, "ip link set eth0 address 02:00:00:00:00:07")
        try:
            pings(guest, THERE)
            assert link(guest)["permaddr"] == MACS[0]
        finally:
            run(guest, f"ip link set eth0 address {MACS[0]}")

    @pytest.mark.parametrize("way", ["", "-R", "-P 4"])
    def test_tcp(self, guest, way):
        """Large sends leave, receive checksums are complete, nothing is verified in software."""
        before = statistics(guest)
        server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} iperf3 --server --one-off")
        run(guest, f"until {IN_PEER}ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done")
        said = json.loads(run(guest, f"iperf3 -c {THERE} -n 16M {way} -J"))
        assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
        assert said["end"]["sum_received"]["bytes"] > 1 << 20
        after = statistics(guest)
        grown = {name: after[name] - before[name] for name in before}
        assert grown["rx_csum_complete"]
        assert grown["tx_packets"] <= grown["tx_packets_phy"]
        if way != "-R":
            assert grown["tx_tso_bytes"] > 1 << 19

    def test_udp(self, guest):
        """Datagrams longer than the MTU among them: fragments. Few had to be sent again."""
        sent = talk(guest, guest, THERE, (64, 1400, 8000), COUNT, in_peer=IN_PEER)
        assert all(number < 1.1 * COUNT for number in sent.values()), sent

    def test_both_ends_count(self, guest):
        """Packets and bytes without frame check sequence; the kernel may say more than we do."""
        before = statistics(guest), statistics(guest, "eth1", IN_PEER)
        run(guest, f"ping -c 10 -i 0.01 -W 10 -s 1400 {THERE}")
        after = statistics(guest), statistics(guest, "eth1", IN_PEER)
        for old, new in zip(before, after):
            for way in ("tx", "rx"):
                name = f"{way}_vport_unicast"
                assert new[f"{name}_packets"] - old[f"{name}_packets"] >= 10
                assert new[f"{name}_bytes"] - old[f"{name}_bytes"] >= 10 * 1442


def is_well(guest):
    """The interface comes up with carrier, on the first function."""
    run(guest, "ip link set eth0 up")
    run(guest, CARRIER.format(name="eth0"))


def test_driver_comes_and_goes(boot):
    """Reload by devlink, unload and load, with the interface up before each."""
    guest = boot(devices=("connectx6dx-vf",))
    for _ in range(2):
        is_well(guest)
        run(guest, "devlink dev reload pci/$(lspci -D -d 15b3: | cut -d' ' -f1)")
        is_well(guest)
        run(guest, "modprobe -r mlx5_ib mlx5_core; modprobe mlx5_ib")
        run(guest, "until test -e /sys/class/net/eth0; do sleep 0.1; done")
    is_well(guest)
    run(guest, "modprobe -r mlx5_ib mlx5_core")
    no_complaints_since_boot(guest, known=KNOWN)


@pytest.mark.slow
def test_function_level_reset(boot):
    """Behind the driver's back while the interface is up: it recovers, and comes up again."""
    guest = boot(devices=("connectx6dx-vf",))
    address = run(guest, "lspci -D -d 15b3: | cut -d' ' -f1").strip()
    run(guest, f"devlink health set pci/{address} reporter fw_fatal grace_period 0")
    for _ in range(2):
        is_well(guest)
        log = KernelLog(guest)
        run(guest, f"echo 1 > /sys/bus/pci/devices/{address}/reset")
        log.wait_for("health recovery succeeded", SECONDS)
        run(guest, "until test -e /sys/class/net/eth0; do sleep 0.1; done")
        assert [line for line in complaints(log) if not RECOVERY.search(line)] == []
    is_well(guest)


ADAPTERS = {
    "connectx4lx": 25_000,
    "connectx5-vf,link=eth": 100_000,
    "connectx6,link=eth": 200_000,
    "connectx7,link=eth,mac=02:00:00:00:00:aa": 400_000,
}
"""Devices, and their speeds in Mb/s."""


def test_every_adapter(boot):
    """link=eth makes an Ethernet adapter of one that is InfiniBand's by default."""
    guest = boot(devices=tuple(ADAPTERS))
    for number, speed in enumerate(ADAPTERS.values()):
        run(guest, f"ip link set eth{number} up")
        run(guest, CARRIER.format(name=f"eth{number}"))
        assert f"Speed: {speed}Mb/s" in run(guest, f"ethtool eth{number}")
    assert link(guest, "eth3")["address"] == "02:00:00:00:00:aa"
    assert run(guest, "lspci -n").count("0200: 15b3:") == len(ADAPTERS)
    assert f"maxmtu {LARGEST_MTU} " in run(guest, "ip -d link show eth0")
    # ConnectX-4 Lx has to find the headers of what it sends in the request.
    run(guest, two_namespaces("eth0", "eth1", HERE, THERE))
    for size in (0, 1400, 20_000):
        said = run(guest, f"ping -c 3 -i 0.2 -W 10 -s {size} {THERE}")
        assert " 0% packet loss" in said
    assert complaints(KernelLog(guest, whole=True)) == []
