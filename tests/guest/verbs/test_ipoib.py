"""IPoIB and rdma_cm over it, with the fabric's own subnet manager: the guest runs none.

Two functions of one guest stand in two network namespaces, which is how packets between them take
the fabric and not the kernel's loopback.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    no_complaints,
    pings,
    run,
)
from helpers.guest.ib_diags import fields
from helpers.guest.ipoib import HERE, THERE, two_interfaces

from emu.device.port.ib.port import BASE_GUID, SM_LID

pytestmark = pytest.mark.guest

LINK_LOCAL_THERE = "fe80::202:c903:e5:10%ib0"
GUIDS = [f"{BASE_GUID + 16 * number:016x}" for number in (0, 1)]


@pytest.fixture(scope="module")
def guest(lab, suite):
    with two_interfaces(lab, suite) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    """The driver and the RDMA stack have nothing to complain of, and the server has not either."""
    with no_complaints(guest):
        yield


def talk(guest, server, client, ready, *, there=True):
    """Run a client against a server that ``ready``, a command, finds at work."""
    job = guest.popen(f"exec {IN_PEER if there else ''}timeout {SECONDS} {server}")
    run(guest, f"until {ready}; do sleep 0.1; done")
    said = run(guest, client)
    assert guest.wait(job, timeout=SECONDS) == 0, job.stderr.decode()
    return said


def listens(server):
    """rdma_cm of this program waits for connections."""
    return f"rdma resource show cm_id | grep LISTEN | grep -q 'comm {shlex.split(server)[0]}'"


def test_interface_is_up(guest):
    """Its MTU is that of the broadcast group, its address has queue pair number and GID."""
    (link,) = json.loads(run(guest, "ip -j link show ib0"))
    assert {"BROADCAST", "MULTICAST", "UP", "LOWER_UP"} <= {*link["flags"]}
    assert link["mtu"] == 4092
    assert link["address"].replace(":", "")[8:] == "fe80000000000000" + GUIDS[0]


def test_link_knows_its_subnet(guest):
    one, two = json.loads(run(guest, "rdma -j link"))
    assert (one["lid"], two["lid"]) == (1, 2)
    assert one["sm_lid"] == two["sm_lid"] == SM_LID
    assert one["subnet_prefix"] == "fe80:0000:0000:0000"


@pytest.mark.parametrize(
    "ping",
    [
        THERE,
        f"-s 4064 -M do {THERE}",
        f"-s 20000 {THERE}",
        f"-6 {LINK_LOCAL_THERE}",
    ],
    ids=["v4", "whole MTU", "fragments", "v6"],
)
def test_ping(guest, ping):
    pings(guest, ping, 3)


def test_tcp(guest):
    """A second of it, without loss that anybody would notice."""
    ready = f"{IN_PEER}ss -Hltn sport = :5201 | grep -q LISTEN"
    said = json.loads(talk(guest, "iperf3 --server --one-off", f"iperf3 -c {THERE} -t 1 -J", ready))
    assert said["end"]["sum_received"]["bytes"] > 1 << 20


def test_driver(guest):
    """The interface is mlx5_core's, whose counters tell of packets by queue."""
    assert "driver: mlx5_core[ib_ipoib]" in run(guest, "ethtool -i ib0")
    run(guest, f"ping -c 10 -i 0.01 -W 10 {THERE}")
    told = dict(re.findall(r"(\w+): (\d+)", run(guest, "ethtool -S ib0")))
    rings = [int(count) for name, count in told.items() if re.fullmatch(r"rx\d+_packets", name)]
    assert sum(rings) == int(told["rx_packets"]) >= 10
    assert int(told["rx_csum_complete"]) == int(told["rx_packets"])


def test_partition(guest):
    """An interface of another partition shares the receive queues (core/ipoib/ipoib_vlan.c)."""
    add = "link add link {0} name {0}.8005 type ipoib pkey 0x8005"
    up = f"""
ip {add.format("ib0")}
ip -n peer {add.format("ib1")}
ip address add 10.0.5.1/24 dev ib0.8005
ip -n peer address add 10.0.5.2/24 dev ib1.8005
ip link set ib0.8005 up
ip -n peer link set ib1.8005 up
"""
    run(guest, up)
    try:
        pings(guest, "-s 4000 10.0.5.2", 3)
        pings(guest, THERE, 3)
        assert "driver: mlx5_core[ib_ipoib]" in run(guest, "ethtool -i ib0.8005")
    finally:
        run(guest, "ip link del ib0.8005; ip -n peer link del ib1.8005")


def test_offloads(guest):
    """Checksums and large sends are the adapter's, and what it computes is right."""
    said = run(guest, "ethtool -k ib0")
    for feature in ("rx-checksumming", "tx-checksum-ipv4", "tcp-segmentation-offload"):
        assert f"{feature}: on" in said
    test_tcp(guest)
    counters = "TcpInCsumErrors", "UdpInCsumErrors"
    told = json.loads(run(guest, f"{IN_PEER}nstat -az --json {' '.join(counters)}"))["kernel"]
    assert [told[name] for name in counters] == [0, 0]


RDMA_CM = {
    "rping": ("rping -s -a {to} -C 20 -S 4096 -V", "rping -c -a {to} -C 20 -S 4096 -V"),
    "ucmatose": ("ucmatose -b {to} -c 3", "ucmatose -s {to} -c 3"),
    "udaddy": ("udaddy -b {to}", "udaddy -s {to}"),
    "rdma_xserver": ("rdma_xserver -c r", "rdma_xclient -s {to} -c r"),
    "rdma_xserver XRC": ("rdma_xserver -c x", "rdma_xclient -s {to} -c x"),
    "rstream": ("rstream -b {to} -S 4096 -C 10 -I 10", "rstream -s {to} -S 4096 -C 10 -I 10"),
    "riostream": ("riostream -b {to} -S 4096 -C 10 -I 10", "riostream -s {to} -S 4096 -C 10 -I 10"),
    "ib_write_bw": ("ib_write_bw -R -F -n 100", "ib_write_bw -R -F -n 100 {to}"),
}


@pytest.mark.parametrize("where", ["two functions", "one function"])
@pytest.mark.parametrize("tool", RDMA_CM)
def test_rdma_cm(guest, tool, where):
    """Addresses by ARP, routes from the subnet administrator, connections by CM."""
    there = where == "two functions"
    to = THERE if there else HERE
    server, client = (command.format(to=to) for command in RDMA_CM[tool])
    talk(guest, server, client, listens(server), there=there)


def test_multicast_by_rdma_cm(guest):
    """mckey's group comes into being with the receiver, and ends with the last to leave."""
    group = "ff12:4001:ffff::f01:101"
    has_group = f"saquery -g | grep -q {group}"
    talk(guest, f"mckey -m 239.1.1.1 -b {THERE}", f"mckey -m 239.1.1.1 -b {HERE} -s", has_group)
    run(guest, f"until ! {has_group}; do sleep 0.1; done")


def test_administrator_knows_the_nodes(guest):
    said = run(guest, "saquery NR")
    assert fields(said, "lid") == ["1", "2", f"{SM_LID}"]
    assert fields(said, "port_guid")[:2] == [f"0x{guid}" for guid in GUIDS]
    assert fields(said, "NodeDescription") == [
        "ConnectX-6 VF, mlx5emu", "ConnectX-6 VF, mlx5emu", "mlx5emu subnet manager",
    ]  # fmt: skip


def test_administrator_knows_ports_paths_and_groups(guest):
    ports = run(guest, "saquery PIR")
    assert fields(ports, "LinkState") == ["Active"] * 3
    assert fields(ports, "LinkSpeedExtActive")[0] == "53.125 Gbps"
    path = run(guest, "saquery PR --src-to-dst 1:2")
    assert (fields(path, "slid"), fields(path, "dlid")) == (["1"], ["2"])
    groups = run(guest, "saquery -g")
    assert "ff12:401b:ffff::ffff:ffff" in groups
    members = run(guest, "saquery --smkey 1 MCMR --mgid ff12:401b:ffff::ffff:ffff")
    assert fields(members, "JoinState") == ["0x1", "0x1"]
    assert fields(run(guest, "saquery -s"), "EndPortLid") == [f"{SM_LID}"]


@pytest.mark.parametrize("lid", [1, 2])
def test_traffic_is_counted(guest, lid):
    """Each port's agent answers, its own guest's questions and another's."""
    run(guest, f"perfquery -x -R {lid} 1")
    before = run(guest, f"perfquery -x {lid} 1")
    run(guest, f"ping -c 10 -i 0.01 -W 10 -s 1000 {THERE}")
    after = run(guest, f"perfquery -x {lid} 1")
    for name in ("PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts", "PortUnicastRcvPkts"):
        (old,), (new,) = fields(before, name), fields(after, name)
        assert int(new) - int(old) >= 10, name
    (old,), (new,) = fields(before, "PortXmitData"), fields(after, "PortXmitData")
    assert int(new) - int(old) >= 10 * 1000 // 4


def test_counters_in_sysfs(guest):
    """The driver makes them from QUERY_VPORT_COUNTER and PPCNT."""
    directory = "/sys/class/infiniband/mlx5_0/ports/1/counters"
    said = run(guest, f"cd {directory} && grep -H . *")
    values = dict(line.split(":", 1) for line in said.splitlines())
    assert {"link_downed", "symbol_error", "VL15_dropped", "port_xmit_wait"} <= values.keys()
    assert int(values["link_downed"]) == 0
    assert int(values["port_xmit_packets"]) == int(values["unicast_xmit_packets"]) + int(
        values["multicast_xmit_packets"]
    )
    assert int(values["multicast_xmit_packets"]) > 0
