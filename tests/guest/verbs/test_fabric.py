"""Two guests on one fabric: their servers are two processes, packets go between them.

The guests have no other network: the programs exchange their addresses over IPoIB, which goes the
same way.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.guest import traffic_tools
from helpers.guest.guests import check_tcp, no_complaints_since_boot, run
from helpers.guest.ib_diags import fields
from helpers.guest.kernel_log import KernelLog
from helpers.guest.traffic_tools import PINGPONGS, SECONDS, converse, verify

from emu.device.port.ib.port import SM_LID
from emu.guests import Guest, GuestOptions

pytestmark = pytest.mark.guest

ONE, TWO = "10.0.0.1", "10.0.0.2"
PERFTESTS = traffic_tools.perftests((2, 4096, 1 << 20), sizes_of_16=(2, 4096, 1 << 20))
EXAMPLES = Path(__file__).parents[3] / "examples" / "fabric"

IPOIB = """set -e
modprobe ib_ipoib
ip address add {address}/24 dev ib0
ip link set ib0 up
until ip link show ib0 | grep -q LOWER_UP; do sleep 0.1; done
"""


def options(suite, fabric):
    return GuestOptions(
        suite=suite, devices=("connectx6-vf",), server_options=("--fabric", fabric), memory_mib=1024
    )


def together(*actions):
    """Do things that wait for guests at the same time; what each gives."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [job.result() for job in [pool.submit(action) for action in actions]]


@pytest.fixture(scope="module")
def guests(lab, suite, tmp_path_factory):
    """Two of them, with IPoIB; neither kernel nor server has anything to complain of at the end."""
    fabric = f"unix:{tmp_path_factory.mktemp('fabric')}/socket"
    found = [Guest(options(suite, fabric)) for _ in range(2)]
    try:
        together(*(guest.start for guest in found))
        # Whichever server came first is the hub and has LID 1.
        found.sort(key=lid)
        together(
            *(
                lambda guest=guest, address=address: run(guest, IPOIB.format(address=address))
                for guest, address in zip(found, (ONE, TWO))
            )
        )
        yield found
        no_complaints_since_boot(*found)
    finally:
        for guest in found:
            guest.stop()


def lid(guest):
    (link,) = json.loads(run(guest, "rdma -j link"))
    return link["lid"]


def test_both_are_on_one_subnet(guests):
    assert [lid(guest) for guest in guests] == [1, 2]
    for guest in guests:
        assert fields(run(guest, "saquery NR"), "lid") == ["1", "2", f"{SM_LID}"]


@pytest.mark.parametrize("size", [56, 4064, 20000])
def test_ping(guests, size):
    """One at a time: of several, ping waits for the last ones no longer than two round trips."""
    for guest, to in zip(guests, (TWO, ONE)):
        run(guest, f"for _ in 1 2 3; do ping -c 1 -W 20 -s {size} {to} || exit 1; done")


def test_tcp(guests):
    """Without loss that would bring it to a halt."""
    one, two = guests
    check_tcp(one, two, TWO)


@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong(guests, program):
    one, two = guests
    converse(two, one, PINGPONGS[program], TWO)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(name, marks=pytest.mark.slow) if name.endswith("1048576, 16 QPs") else name
        for name in PERFTESTS
    ],
)
def test_perftest(guests, program):
    one, two = guests
    converse(one, two, PERFTESTS[program], ONE)


def test_ports_count_each_packet(guests):
    """Long messages are many packets, however many of those a frame between the servers has."""
    one, two = guests
    count, packets = 20, (1 << 20) // 4096

    def counted(guest, way):
        found = run(guest, f"cat /sys/class/infiniband/*/ports/1/counters/port_{way}_packets")
        return sum(map(int, found.split()))

    before = counted(two, "xmit"), counted(one, "rcv")
    converse(one, two, f"ib_write_bw -F -s {1 << 20} -n {count}", ONE)
    sent, received = counted(two, "xmit") - before[0], counted(one, "rcv") - before[1]
    assert count * packets <= sent < 2 * count * packets
    assert count * packets <= received < 2 * count * packets


def test_data_are_what_was_sent(guests):
    """SEND, WRITE, READ and both atomics, of up to a mebibyte, byte by byte."""
    one, two = guests
    verify(two, one, TWO)


RDMA_CM = {
    "rping": ("rping -s -a {to} -C 20 -S 4096 -V", "rping -c -a {to} -C 20 -S 4096 -V"),
    "ucmatose": ("ucmatose -b {to} -c 3", "ucmatose -s {to} -c 3"),
    "udaddy": ("udaddy -b {to}", "udaddy -s {to}"),
    "rdma_xserver": ("rdma_xserver -c r", "rdma_xclient -s {to} -c r"),
    "rstream": ("rstream -b {to} -S 4096 -C 10 -I 10", "rstream -s {to} -S 4096 -C 10 -I 10"),
    "ib_write_bw": ("ib_write_bw -R -F -n 100", "ib_write_bw -R -F -n 100 {to}"),
}


@pytest.mark.parametrize("tool", RDMA_CM)
def test_rdma_cm(guests, tool):
    """Addresses by ARP over IPoIB, routes from the subnet administrator in the hub's process."""
    one, two = guests
    server, client = (command.format(to=TWO) for command in RDMA_CM[tool])
    job = two.popen(f"exec timeout {SECONDS} {server}")
    name = server.split()[0]
    run(
        two,
        f"until rdma resource show cm_id | grep LISTEN | grep -q 'comm {name}'; do sleep 0.1; done",
    )
    run(one, f"timeout {SECONDS} {client}")
    assert two.wait(job, timeout=SECONDS) == 0, bytes(job.stderr).decode()


def test_multicast_by_rdma_cm(guests):
    one, two = guests
    has_group = "saquery -g | grep -q ff12:4001:ffff::f01:101"
    job = two.popen(f"exec timeout {SECONDS} mckey -m 239.1.1.1 -b {TWO}")
    run(one, f"until {has_group}; do sleep 0.1; done")
    run(one, f"timeout {SECONDS} mckey -m 239.1.1.1 -b {ONE} -s")
    assert two.wait(job, timeout=SECONDS) == 0, bytes(job.stderr).decode()


RETRY_EXCEEDED = "Failed status 12"
"""IBV_WC_RETRY_EXC_ERR, as perftest reports it."""


PORT_ACTIVE, PORT_ERR, CLIENT_REREGISTER, DEVICE_SPEED_CHANGE = 9, 10, 17, 20
"""enum ibv_event_type; Linux 7.2 tells of the speed whenever the link changes."""


def endless_writes(server, client, to):
    """Writes that only an error ends: the jobs of both sides, under way."""
    command = "ib_write_bw -F -s 4096 -D 1000"
    jobs = [server.popen(f"exec {command}")]
    run(server, 'until grep -q ":4853 .* 0A " /proc/net/tcp*; do sleep 0.02; done')
    jobs.append(client.popen(f"exec {command} {to}"))
    count = "$(cat /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets)"
    run(client, f"old={count}; until [ {count} -gt $((old + 500)) ]; do sleep 0.1; done")
    return jobs


@pytest.mark.slow
def test_peers_that_vanish(lab, suite):
    """The hub's server is killed, then a whole guest is gone: errors in time, and life goes on.

    On TCP. The survivor's port goes down and comes back when its own server has become the hub.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fabric = f"tcp:127.0.0.1:{free.getsockname()[1]}"
    first, survivor, third = (Guest(options(suite, fabric)) for _ in range(3))
    with first, survivor:
        together(
            lambda: run(first, IPOIB.format(address=ONE)),
            lambda: run(survivor, IPOIB.format(address=TWO)),
        )
        watch = survivor.popen("exec stdbuf -oL ibv_asyncwatch")
        _, job = endless_writes(first, survivor, ONE)
        first.kill_server()
        assert survivor.wait(job, timeout=SECONDS) == 1
        assert RETRY_EXCEEDED in bytes(job.stdout + job.stderr).decode()
        run(survivor, "until rdma link | grep -q ACTIVE; do sleep 0.1; done")
        first.stop()
        with third:
            run(third, IPOIB.format(address=ONE))
            run(survivor, "until ip link show ib0 | grep -q LOWER_UP; do sleep 0.1; done")
            run(survivor, f"until ping -c 1 -W 1 {ONE}; do :; done")
            _, job = endless_writes(third, survivor, ONE)
        assert survivor.wait(job, timeout=SECONDS) == 1
        assert RETRY_EXCEEDED in bytes(job.stdout + job.stderr).decode()
        events = bytes(watch.stdout).decode()
        watch.kill()
        told = [int(number) for number in re.findall(r"event_type .*\((\d+)\)", events)]
        told = [number for number in told if number != DEVICE_SPEED_CHANGE]
        # The kernel hands events that come together on side by side (core/cache.c).
        assert sorted(told[:3]) == [PORT_ACTIVE, PORT_ERR, CLIENT_REREGISTER], events
        assert KernelLog(survivor, whole=True).complaints() == []


def test_example(lab):
    """``examples/fabric/two-guests.sh``, whose guests find each other by themselves."""
    done = subprocess.run(
        [EXAMPLES / "two-guests.sh", "ib_read_lat", "-F", "-n", "20"],
        env=os.environ | {"MLX5EMU": f"{sys.executable} -m emu"},
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "RDMA_Read Latency Test" in done.stdout
