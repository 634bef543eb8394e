"""Two ports of a board that a guest bonds: the driver makes a LAG of them, mlx5_ib one RDMA device.

The peer is a third function in a network namespace of its own, on the same segment.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from helpers.guest.cables import pulled
from helpers.guest.guests import FEW_KEYS, SECONDS, no_complaints_since_boot, run, running
from helpers.guest.roce_guests import ONE, TWO, UP, by_address, gid_of
from helpers.guest.traffic_tools import check_table, converse, verify

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

DEVICES = ("connectx6dx,board=1", "connectx6dx,board=1", "connectx6dx")
HASHING = ("connectx6dx,board=1,port_select=1",) * 2 + ("connectx6dx",)
PEER = f"""set -e
rdma system set netns exclusive
ip netns add peer
ip link set eth2 netns peer
rdma dev set mlx5_2 netns peer
ip -n peer link set lo up
ip netns exec peer sh -c '{UP.format(address=TWO, nic="eth2")}'
modprobe bonding max_bonds=0
"""
BOND = f"""set -e
ip link add bond0 type bond mode {{mode}} miimon 100
for port in eth0 eth1; do ip link set $port down; ip link set $port master bond0; done
{UP.format(address=ONE, nic="bond0")}
until [ -e /sys/class/infiniband/mlx5_bond_0 ]; do sleep 0.2; done
until grep -q ffff:0a00:000 /sys/class/infiniband/mlx5_bond_0/ports/1/gids/{gid_of("mlx5_bond_0")}
do sleep 0.2; done
"""
UNBOND = """set -e
ip link del bond0
until [ -e /sys/class/infiniband/mlx5_0 ] && [ -e /sys/class/infiniband/mlx5_1 ]; do sleep 0.2; done
"""
IS_BACK = "until [ -e /sys/class/infiniband/mlx5_{0} ]; do sleep 0.2; done"
MAP = re.compile(r"mlx5_core 0000:01:00\.0: lag map: ?(port 1:[12] port 2:[12])")
ACTIVE = re.compile(r"mlx5_core 0000:01:00\.0: lag map active ports: ([12](?:, [12])?)")
SAYS = re.compile("firmware level support is missing|bond0: .*(link status|no active slave)")
"""What 6.1 says of TC offload, and bonding of links."""
IN_PEER = "ip netns exec peer"
RPING = ("rping -s -a {to} -C 10 -V", "rping -c -a {to} -C 10 -V")
MANY = 200
"""Frames that are RDMA traffic, and not some of the interfaces' own."""
TRAFFIC = "ib_write_bw -F -x {gid} -s 65536 -q {pairs} -n 50"


@contextmanager
def with_peer(suite, devices):
    """A guest whose kernel has said nothing when it goes, with an adapter for the peer."""
    options = GuestOptions(suite=suite, devices=devices, memory_mib=2048, kernel_arguments=FEW_KEYS)
    with running(options) as (found,):
        run(found, PEER)
        yield found
        no_complaints_since_boot(found, known=SAYS)


@pytest.fixture(scope="module")
def guest(suite):
    with with_peer(suite, DEVICES) as found:
        yield found


@pytest.fixture(scope="module")
def hashing(suite):
    """As ``guest``, of a board whose flow tables choose the port."""
    with with_peer(suite, HASHING) as found:
        yield found


@contextmanager
def bonded(guest, mode="active-backup primary eth0"):
    try:
        run(guest, BOND.format(mode=mode))
        yield
    finally:
        if guest.is_running:
            run(guest, UNBOND)


def has_map(guest, wanted):
    """Whether the driver's map becomes this one, within seconds."""
    for _ in range(50):
        *_, last = MAP.findall(run(guest, "dmesg"))
        if last == wanted:
            return True
        run(guest, "sleep 0.2")
    return False


def has_active(guest, wanted):
    """As ``has_map``, for the ports by which packets leave where flow tables choose."""
    for _ in range(50):
        *_, last = ACTIVE.findall(run(guest, "dmesg"))
        if last == wanted:
            return True
        run(guest, "sleep 0.2")
    return False


def sent(guest):
    """Frames that the two ports have sent."""
    count = "ethtool -S {} | sed -n 's/.* tx_packets_phy: //p'"
    return [int(run(guest, count.format(port))) for port in ("eth0", "eth1")]


def write(guest, pairs=4):
    """Write to the peer by so many queue pairs; how many frames each port has sent meanwhile."""
    before = sent(guest)
    gid = gid_of("mlx5_bond_0")
    told = converse(
        Inside(guest),
        guest,
        TRAFFIC.format(gid=gid, pairs=pairs),
        TWO,
        server_device="mlx5_2",
        client_device="mlx5_bond_0",
    )
    check_table(told)
    return [now - then for now, then in zip(sent(guest), before)]


class Inside:
    """The guest as seen from the peer's namespace, for programs that listen."""

    def __init__(self, guest):
        self._guest = guest
        self.wait = guest.wait

    def popen(self, command):
        return self._guest.popen([*IN_PEER.split(), *_words(command)])

    def run(self, command, **options):
        return self._guest.run([*IN_PEER.split(), *_words(command)], **options)


def _words(command):
    return ["sh", "-c", command] if isinstance(command, str) else command


def test_traffic_follows_the_active_port(guest):
    with bonded(guest):
        assert has_map(guest, "port 1:1 port 2:1")
        assert "PORT_ACTIVE" in run(guest, "ibv_devinfo -d mlx5_bond_0")
        first, second = write(guest)
        assert first > MANY > second
        with pulled(guest, 0):
            assert has_map(guest, "port 1:2 port 2:2")
            assert "PORT_ACTIVE" in run(guest, "ibv_devinfo -d mlx5_bond_0")
            first, second = write(guest)
            assert second > MANY > first
            by_address(guest, guest, RPING, TWO, IN_PEER)
        assert has_map(guest, "port 1:1 port 2:1")
        first, second = write(guest)
        assert first > MANY > second
    assert "mlx5_bond_0" not in run(guest, "ls /sys/class/infiniband")


def test_both_ports_carry_traffic_until_one_fails(guest):
    with bonded(guest, "balance-xor"):
        assert has_map(guest, "port 1:1 port 2:2")
        assert min(write(guest)) > MANY
        gid = gid_of("mlx5_bond_0")
        devices = ("mlx5_2", "mlx5_bond_0")
        environments = [[f"DEVICE={device}", f"GID_INDEX={gid}"] for device in devices]
        verify(Inside(guest), guest, TWO, *environments)
        command = f"ib_send_bw -F -x {gid} -s 65536 -q 4 -n 400"
        listener = guest.popen(f"exec {IN_PEER} {command} -d mlx5_2")
        run(Inside(guest), "until ss -Hltn sport = :18515 | grep -q LISTEN; do sleep 0.1; done")
        client = guest.popen(f"exec timeout {SECONDS} {command} -d mlx5_bond_0 {TWO}")
        with pulled(guest, 1):
            assert has_map(guest, "port 1:1 port 2:1")
            assert guest.wait(client, timeout=SECONDS) == 0, "what was lost is repeated"
            assert guest.wait(listener, timeout=SECONDS) == 0


def test_flow_tables_choose_the_port(hashing):
    """A hash over a packet's headers does, so each queue pair keeps its port."""
    with bonded(hashing, "balance-xor xmit_hash_policy layer3+4"):
        assert "mode:hash" in run(hashing, "dmesg | grep shared_fdb | tail -n 1")
        assert has_active(hashing, "1, 2")
        assert min(write(hashing, 16)) > MANY
        for port in (0, 1):
            with pulled(hashing, port):
                assert has_active(hashing, "21"[port])
                ways = write(hashing, 16)
                assert ways[1 - port] > MANY > ways[port]
            assert has_active(hashing, "1, 2")
    for policy in ("encap3+4", "vlan+srcmac"):
        with bonded(hashing, f"balance-xor xmit_hash_policy {policy}"):
            assert sum(write(hashing)) > MANY


def test_the_second_ports_driver_leaves_the_bond(guest):
    driver = "/sys/bus/pci/drivers/mlx5_core"
    with bonded(guest):
        run(guest, f"echo 0000:02:00.0 > {driver}/unbind; {IS_BACK.format(0)}")
        assert "mlx5_bond_0" not in run(guest, "ls /sys/class/infiniband")
        run(guest, f"echo 0000:02:00.0 > {driver}/bind; {IS_BACK.format(1)}")


@pytest.mark.slow
def test_the_driver_goes_while_there_is_a_bond(guest):
    """Its interfaces leave the bond with it, and come back without."""
    with bonded(guest):
        run(guest, "ip netns del peer; modprobe -r mlx5_ib; ! [ -e /sys/module/mlx5_core ]")
        run(guest, f"modprobe mlx5_ib; {IS_BACK.format(0)}; {IS_BACK.format(2)}")
    run(guest, PEER)
    with bonded(guest):
        assert sum(write(guest)) > MANY


@pytest.fixture
def two_guests(suite, tmp_path_factory):
    """Two guests whose boards are joined port by port, by two segments of a fabric."""
    fabric = tmp_path_factory.mktemp("bond") / "socket"
    options = GuestOptions(
        suite=suite, memory_mib=1536, server_options=("--fabric", f"unix:{fabric}"),
        devices=("connectx6dx,board=1,segment=1", "connectx6dx,board=1,segment=2"),
    )  # fmt: skip
    with running(options, options) as found:
        for guest in found:
            run(guest, "modprobe bonding max_bonds=0")
        yield found
        no_complaints_since_boot(*found, known=SAYS)


@pytest.mark.slow
def test_link_aggregation_of_two_guests(two_guests):
    """802.3ad: the kernels agree by LACP, and RoCE leaves by both ports on both sides."""
    mode = "802.3ad lacp_rate fast"
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(run, guest, BOND.format(mode=mode).replace(ONE, address))
            for guest, address in zip(two_guests, (ONE, TWO))
        ]
        [job.result() for job in jobs]
    one, two = two_guests
    for guest in two_guests:
        assert has_map(guest, "port 1:1 port 2:2")
        state = run(guest, "cat /proc/net/bonding/bond0")
        assert "Number of ports: 2" in state
    before = [sent(guest) for guest in two_guests]
    gid = gid_of("mlx5_bond_0")
    told = converse(
        one, two, f"{TRAFFIC.format(gid=gid, pairs=4)} -b", ONE, server_device="mlx5_bond_0",
        client_device="mlx5_bond_0",
    )  # fmt: skip
    check_table(told)
    for guest, then in zip(two_guests, before):
        assert min(now - port for now, port in zip(sent(guest), then)) > MANY
    with pulled(one, 0):
        assert has_map(one, "port 1:2 port 2:2")
        by_address(one, two, RPING, ONE)
