"""Tunnels of the kernel over the interface: large sends and checksums of what is inside."""

from __future__ import annotations

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

STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
HERE, THERE = "10.0.0.1", "10.0.0.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE)
DOWN = "ip netns del peer"
SIZE = 600_000
VXLAN = "ip link add {name} type vxlan id 7 local {local} remote {remote} dev {device}"
TUNNELS = {
    "vxlan": f"{VXLAN} dstport 4789",
    "vxlan_csum": f"{VXLAN} dstport 8472 udpcsum",
    "geneve": "ip link add {name} type geneve id 9 remote {remote}",
    "gretap": "ip link add {name} type gretap local {local} remote {remote}",
    "gre_key": "ip tunnel add {name} mode gre local {local} remote {remote} key 5",
    "ipip": "ip tunnel add {name} mode ipip local {local} remote {remote}",
    "sit": "ip tunnel add {name} mode sit local {local} remote {remote}",
}


@pytest.fixture(scope="module")
def guest(lab, suite):
    options = GuestOptions(suite=suite, devices=("connectx6dx", "connectx7,link=eth"))
    with prepared(lab, options, UP, DOWN) as guest:
        guest.run("cat > /tmp/checked_stream.py", stdin=STREAM.read_bytes()).check()
        yield guest


@pytest.fixture
def quiet(guest):
    with no_complaints(guest):
        yield


@pytest.fixture(params=TUNNELS)
def tunnel(guest, request):
    """A tunnel between both interfaces; the addresses that are behind its other end."""
    name, command = request.param, TUNNELS[request.param]
    ends = (("", HERE, THERE, "eth0", 1), (IN_PEER, THERE, HERE, "eth1", 2))
    for inside, local, remote, device, number in ends:
        add = command.format(name="tun", local=local, remote=remote, device=device)
        run(guest, f"{inside}{add}")
        run(guest, f"{inside}ip link set tun up")
        if name != "sit":
            run(guest, f"{inside}ip address add 192.168.9.{number}/24 dev tun")
        if name != "ipip":
            run(guest, f"{inside}ip address add fd09::{number}/64 dev tun nodad")
    yield [
        address
        for address, without in (("192.168.9.2", "sit"), ("fd09::2", "ipip"))
        if name != without
    ]
    for inside in ("", IN_PEER):
        run(guest, f"{inside}ip link del tun")


def counters(guest, name="eth0", inside=""):
    out = run(guest, f"{inside}ethtool -S {name}")
    return {key: int(value) for key, value in re.findall(r"(\w+): (\d+)$", out, re.M)}


def transfer(guest, address):
    program = "python3 /tmp/checked_stream.py"
    server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} {program} listen {address}")
    run(guest, f"until {IN_PEER}ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done")
    sent = run(guest, f"{program} send {address} {SIZE}")
    assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
    assert sent.strip() == server.stdout.decode().split("listening\n")[1].strip()


def test_a_stream(guest, tunnel):
    for address in tunnel:
        run(guest, f"for _ in $(seq 30); do ping -c 1 -W 1 {address} && exit; done; exit 1")
        before = counters(guest)
        transfer(guest, address)
        after = counters(guest)
        assert after["tx_tso_inner_packets"] > before["tx_tso_inner_packets"]
        assert after["tx_csum_partial_inner"] > before["tx_csum_partial_inner"]
        assert after["tx_tso_packets"] == before["tx_tso_packets"]
    errors = run(guest, f"nstat -az; {IN_PEER}nstat -az")
    assert not re.search(r"InCsumErrors +[1-9]", errors)


def test_checksums_that_the_completion_vouches_for(guest):
    """Without the sum over the packet the driver believes what it says of the inner headers."""
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_no_csum_complete on")
    for inside, local, remote, number in (("", HERE, THERE, 1), (IN_PEER, THERE, HERE, 2)):
        run(guest, f"{inside}ip link add tun type gretap local {local} remote {remote}")
        run(guest, f"{inside}ip link set tun up")
        run(guest, f"{inside}ip address add 192.168.9.{number}/24 dev tun")
    transfer(guest, "192.168.9.2")
    assert counters(guest, "eth1", IN_PEER)["rx_csum_unnecessary_inner"] > SIZE // 1500
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_no_csum_complete off")
    for inside in ("", IN_PEER):
        run(guest, f"{inside}ip link del tun")


def test_what_is_offloaded(guest):
    said = run(guest, "ethtool -k eth0")
    for name in (
        "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation",
        "tx-gre-csum-segmentation", "tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
        "rx-udp_tunnel-port-offload",
    ):  # fmt: skip
        assert re.search(rf"^{name}: on", said, re.M)
    assert "vxlan" in run(guest, "ethtool --show-tunnels eth0")
