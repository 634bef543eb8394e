"""The ways that mlx5e takes on real cards: striding receive queues, multi-packet sends, LRO,
compressed completions.

Each way is proven by the driver's own counters, with traffic whose bytes are compared.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    addresses_ready,
    no_complaints,
    prepared,
    run,
    two_namespaces,
)

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("quiet")]

STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
HERE, THERE = "10.0.0.1", "10.0.0.2"
THERE_V6 = "fd00::2"
UP = two_namespaces("eth0", "eth1", HERE, THERE) + """
ip address add fd00::1/64 dev eth0 nodad
ip -n peer address add fd00::2/64 dev eth1 nodad
""" + addresses_ready("eth0", "eth1")  # fmt: skip
DOWN = "ip netns del peer"
MIB = 1 << 20
SAID = re.compile(
    "Disabling rxhash, not supported when CQE compress is active"
    "|Keeping HW-GRO enabled, TCP header-data split depends on it"
)
"""What the driver says of features that exclude or need each other."""


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = GuestOptions(suite=suite, devices=("connectx5,link=eth", "connectx7,link=eth"))
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/checked_stream.py", stdin=STREAM.read_bytes()).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest, known=SAID):
        yield


def counters(guest, name="eth1", inside=IN_PEER):
    out = run(guest, f"{inside}ethtool -S {name}")
    return {key: int(value) for key, value in re.findall(r"(\w+): (\d+)$", out, re.M)}


def flags(guest, name="eth0"):
    out = run(guest, f"ethtool --show-priv-flags {name}")
    return dict(re.findall(r"(\w+) *: (on|off)", out))


def transfer(guest, address=THERE, size=4 * MIB):
    """A stream between the interfaces arrives as it was sent: at the second one, or at HERE."""
    program = "python3 /tmp/checked_stream.py"
    at, sender = ("", IN_PEER) if address == HERE else (IN_PEER, "")
    server = guest.popen(f"exec {at}timeout {SECONDS} {program} listen {address}")
    run(guest, f"until {at}ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done")
    sent = run(guest, f"{sender}{program} send {address} {size}")
    assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
    assert sent.strip() == server.stdout.decode().split("listening\n")[1].strip()


def grown(guest, traffic, name="eth1", inside=IN_PEER):
    """What the driver has counted meanwhile."""
    before = counters(guest, name, inside)
    traffic()
    after = counters(guest, name, inside)
    return {key: after[key] - before.get(key, 0) for key in after}


def test_the_drivers_choice(guest, suite):
    lines = run(guest, "dmesg | grep -o 'MLX5E: StrdRq.*' | sort -u").splitlines()
    layouts = {line.removeprefix("MLX5E: StrdRq(1) RqSz(8) StrdSz(2048) ") for line in lines}
    # Linux 6.1 knows one layout, and does not name it.
    wanted = {"(0)"} if suite == "bookworm" else {"(0 basic)", "(0 enhanced)"}
    assert layouts == {f"RxCqeCmprss{layout}" for layout in wanted}
    shown = flags(guest)
    for name in ("rx_striding_rq", "skb_tx_mpwqe", "xdp_tx_mpwqe"):
        assert shown[name] == "on"
    assert "CQE mode RX: on" in run(guest, "ethtool -c eth0")


def test_small_packets_leave_together(guest):
    """Acknowledgments of a stream, echo requests."""
    count = grown(guest, lambda: transfer(guest), "eth1", IN_PEER)
    assert 0 < count["tx_mpwqe_blks"] <= count["tx_mpwqe_pkts"]


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("striding", ["off", "on"])
def test_receive_queues_of_both_kinds(guest, striding, mtu):
    """With frames longer than a page strides are short, and what is left over is filled."""
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_striding_rq {striding}")
    for inside, name in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{inside}ip link set {name} mtu {mtu}")
    count = grown(guest, lambda: transfer(guest))
    assert count["rx_packets"] > 4 * MIB // 9000
    assert (count["rx_mpwqe_filler_strides"] > 0) == (striding == "on" and mtu == 9000)
    assert count["rx_wqe_err"] == count["rx_oversize_pkts_sw_drop"] == 0
    for inside, name in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{inside}ip link set {name} mtu 1500")


@pytest.mark.parametrize("address", [THERE, THERE_V6], ids=["IPv4", "IPv6"])
def test_lro(guest, address):
    run(guest, f"{IN_PEER}ethtool -K eth1 lro on")
    count = grown(guest, lambda: transfer(guest, address))
    assert count["rx_lro_bytes"] > 3 * MIB
    assert count["rx_lro_packets"] * 2 < count["rx_packets"]
    assert "InCsumErrors 0" in run(guest, f"{IN_PEER}nstat -az | tr -s ' ' | sed s/^Tcp//")
    run(guest, f"{IN_PEER}ethtool -K eth1 lro off")
    assert grown(guest, lambda: transfer(guest, address))["rx_lro_packets"] == 0


@pytest.mark.parametrize("striding", ["off", "on"])
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize(
    ("address", "inside", "name"), [(HERE, "", "eth0"), (THERE, IN_PEER, "eth1")],
    ids=["ConnectX-5", "ConnectX-7"],
)  # fmt: skip
def test_compressed_completions(guest, address, inside, name, mtu, striding):
    """In the basic layout, or in the enhanced one that ConnectX-7 has and Linux since 6.2 knows."""
    run(guest, f"{inside}ethtool --set-priv-flags {name} rx_striding_rq {striding}")
    run(guest, f"{inside}ethtool --set-priv-flags {name} rx_cqe_compress on")
    for there, each in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{there}ip link set {each} mtu {mtu}")
    count = grown(guest, lambda: transfer(guest, address), name, inside)
    assert count["rx_cqe_compress_blks"] > 10
    assert count["rx_cqe_compress_pkts"] > count["rx_packets"] // 3
    assert count["rx_wqe_err"] == 0
    for there, each in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{there}ip link set {each} mtu 1500")
    run(guest, f"{inside}ethtool --set-priv-flags {name} rx_striding_rq on rx_cqe_compress off")
    count = grown(guest, lambda: transfer(guest, address, MIB), name, inside)
    assert count["rx_cqe_compress_pkts"] == 0


@pytest.mark.suite("trixie", "sid")
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("address", [THERE, THERE_V6], ids=["IPv4", "IPv6"])
def test_hardware_gro(guest, address, mtu):
    """Headers are apart from data, and packets of a stream are one: on ConnectX-7."""
    run(guest, f"{IN_PEER}ethtool -K eth1 rx-gro-hw on")
    for there, each in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{there}ip link set {each} mtu {mtu}")
    count = grown(guest, lambda: transfer(guest, address))
    assert count["rx_gro_packets"] > 3 * MIB // mtu
    assert count["rx_gro_skbs"] < count["rx_gro_packets"]
    assert count["rx_gro_bytes"] > 3 * MIB
    assert count["rx_wqe_err"] == count["rx_oversize_pkts_sw_drop"] == 0
    assert "InCsumErrors 0" in run(guest, f"{IN_PEER}nstat -az | tr -s ' ' | sed s/^Tcp//")
    run(guest, f"{IN_PEER}ping -q -c 3 -s 1000 {HERE}")
    for there, each in (("", "eth0"), (IN_PEER, "eth1")):
        run(guest, f"{there}ip link set {each} mtu 1500")
    run(guest, f"{IN_PEER}ethtool -K eth1 rx-gro-hw off")
    assert grown(guest, lambda: transfer(guest, address, MIB))["rx_gro_packets"] == 0


@pytest.mark.suite("sid")
def test_data_split(guest):
    """As long as it is asked for, HW-GRO stays on."""
    run(guest, f"{IN_PEER}ethtool -K eth1 rx-gro-hw on")
    run(guest, f"{IN_PEER}ethtool -G eth1 tcp-data-split on")
    assert re.search(r"TCP data split:\s+on\b", run(guest, f"{IN_PEER}ethtool -g eth1"))
    assert guest.run(f"{IN_PEER}ethtool -K eth1 rx-gro-hw off").status
    assert grown(guest, lambda: transfer(guest))["rx_gro_packets"] > 100
    run(guest, f"{IN_PEER}ethtool -G eth1 tcp-data-split off")
    run(guest, f"{IN_PEER}ethtool -K eth1 rx-gro-hw off")
    assert grown(guest, lambda: transfer(guest, size=MIB))["rx_gro_packets"] == 0


@pytest.mark.parametrize("ring", [16, 64, 8192])
def test_rings_of_other_sizes(guest, ring):
    run(guest, f"{IN_PEER}ethtool -G eth1 rx {ring}")
    transfer(guest, size=MIB)
    run(guest, f"{IN_PEER}ethtool -G eth1 rx 1024")


def test_ways_change_under_traffic(guest):
    """Flags go on and off while a stream is on its way: nothing of it is lost or changed."""
    switch = "; ".join(
        f"{IN_PEER}ethtool --set-priv-flags eth1 {name} {state}"
        for state in ("off", "on") for name in ("rx_striding_rq", "skb_tx_mpwqe", "rx_cqe_compress")
    )  # fmt: skip
    run(guest, f"(for n in 1 2 3; do {switch}; done) > /dev/null 2>&1 & echo $!")
    transfer(guest, size=8 * MIB)
    usual = "rx_striding_rq on skb_tx_mpwqe on rx_cqe_compress off"
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 {usual}")
    assert flags(guest)["rx_striding_rq"] == "on"
