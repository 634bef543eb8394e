"""Emulated HCA against rdma_rxe, in the same boot of the same guest, measured alternately.

Client and server of each test run in the one guest. rxe uses a dummy network device, whose packets
never leave the kernel. Both devices get the same command with the same number of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import click
from figures import Goal, Row, Section, ratio_at_least, ratio_at_most
from machine import Quiet

from booted import guests, perftest
from booted.guests import Base
from emu.guests import CommandFailedError, CommandTimeoutError, Guest

REPEAT = 3
DEVICE = "connectx6-vf"
OURS = "mlx5_0"
RXE = "rxe0"
PORT = 18515
TIMEOUT = 300.0
SERVER_GRACE = 20.0
TRIES = 5
"""Number of attempts: perftest sometimes fails to measure the clock rate on a busy machine, and
prints inf.
"""

_NETWORK = "10.9.0.1"
_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_MAKE_RXE = f"""set -e
modprobe -a dummy rdma_rxe
ip link add bench0 type dummy
ip addr add {_NETWORK}/24 dev bench0
ip link set bench0 up
rdma link add {RXE} type rxe netdev bench0
"""
_GID_INDEX = """cd /sys/class/infiniband/{device}/ports/1
for _ in $(seq 100); do
    for index in $(ls gids); do
        [ "$(cat gids/$index)" = {gid} ] || continue
        [ "$(cat gid_attrs/types/$index)" = "RoCE v2" ] && echo "$index" && exit
    done
    sleep 0.1
done
exit 1
"""
_WHEN_LISTENING = f'until grep -q ":{PORT:04X} .* 0A " /proc/net/tcp*; do sleep 0.02; done'
"""Hexadecimal port and state TCP_LISTEN, as /proc/net/tcp shows them."""


@dataclass(frozen=True)
class Test:
    """Command, the value to take from its output, and its goal."""

    name: str
    unit: str
    command: str
    read: Callable[[str], float]
    goal: Goal | None = None
    gid_option: str = "-x"
    sleeping: str | None = ""
    """Option for guests of one processor, where a polling end would occupy the processor for a
    slice of the scheduler's.

    None if there is no such option.
    """


class Ends(NamedTuple):
    """Guests of server and client, and the address by which they exchange numbers."""

    server: Guest
    client: Guest
    address: str = "127.0.0.1"


def bandwidth(
    program: str, size: str, size_bytes: int, count: int, goal: float | None = None
) -> Test:
    """Return a bandwidth test of perftest; the goal is a ratio."""
    command = f"{program} -F -s {size_bytes} -n {count}"
    bound = None if goal is None else ratio_at_least(goal)
    return Test(f"{program}, {size}", "MiB/s", command, perftest.bandwidth, bound)


_SIZES = (("4 KiB", 4096, 10_000, 1.5), ("64 KiB", 65536, 1000, 8), ("1 MiB", 1 << 20, 200, 20))
_ONE_QP = "message rate, write 2 B, 1 QP"
_MANY_QPS = "message rate, write 2 B, 16 QPs"
TESTS = (
    *(
        bandwidth(program, *size)
        for program in ("ib_write_bw", "ib_read_bw")
        for size in _SIZES
    ),
    Test("ib_write_lat, 2 B", "us", "ib_write_lat -F -s 2 -n 5000", perftest.latency,
         ratio_at_most(1.0), sleeping=None),
    Test("ib_send_lat, 2 B", "us", "ib_send_lat -F -s 2 -n 5000", perftest.latency,
         ratio_at_most(1.2), sleeping="-e"),
    Test(_ONE_QP, "1000/s", "ib_write_bw -F -s 2 -n 40000", perftest.message_rate,
         ratio_at_least(1.0)),
    Test(_MANY_QPS, "1000/s", "ib_write_bw -F -s 2 -n 2500 -q 16", perftest.message_rate,
         ratio_at_least(1.0)),
    Test("ibv_rc_pingpong, 4 KiB", "us/iter", "ibv_rc_pingpong -n 2000", perftest.pingpong,
         gid_option="-g", sleeping="-e"),
)  # fmt: skip


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Run every test on both devices alternately, ``repeat`` times."""
    tests = tests_for(base.cpus)
    with guests.booted(base, devices=(DEVICE,)) as guest:
        devices = ((OURS, None), (RXE, make_rxe(guest)))
        takes = {
            (test.name, device): partial(sample, Ends(guest, guest), test, device, index)
            for test in tests
            for device, index in devices
        }
        samples = guests.take_turns(repeat or REPEAT, quiet, takes)
    rows = [
        Row(test.name, test.unit, samples[test.name, OURS], samples[test.name, RXE], test.goal)
        for test in tests
    ]
    one, many = samples[_ONE_QP, OURS], samples[_MANY_QPS, OURS]
    remarks = [
        "Client and server in one guest; latency is one way, as perftest counts.",
        _scaling(Row("", "", many, one)),
    ]
    return [Section("verbs", "Verbs, against rdma_rxe", rows, "emulated HCA", "rxe", remarks)]


def tests_for(cpus: int) -> list[Test]:
    """Return the tests in a guest of so many processors."""
    if cpus > 1:
        return list(TESTS)
    return [
        replace(test, command=f"{test.command} {test.sleeping}".rstrip())
        for test in TESTS
        if test.sleeping is not None
    ]


def _scaling(row: Row) -> str:
    return f"With 16 queue pairs the message rate is {row.ratio or 0:.2f} x that with one."


def make_rxe(guest: Guest) -> int:
    """Create a Soft-RoCE device on a dummy link; return the index of its IPv4 GID."""
    guest.run(_MAKE_RXE, timeout=60).check()
    return gid_index_of(guest, RXE, _NETWORK)


def gid_index_of(guest: Guest, device: str, address: str) -> int:
    """Return the index of the GID of an interface's IPv4 address; wait until it exists."""
    first, second, third, fourth = map(int, address.split("."))
    gid = f"{_MAPPED}{first:02x}{second:02x}:{third:02x}{fourth:02x}"
    command = _GID_INDEX.format(device=device, gid=gid)
    return int(guest.run(command, timeout=60).check().stdout)


def sample(ends: Ends, test: Test, device: str, gid_index: int | None) -> float:
    """Return one number of one test, on a device that has the same name at both ends."""
    command = f"{test.command} -d {device} -p {PORT}"
    if gid_index is not None:
        command += f" {test.gid_option} {gid_index}"
    for _ in range(TRIES):
        output = run_pair(ends, command)
        try:
            return test.read(output)
        except perftest.OutputError as error:
            why = error
    raise click.ClickException(f"{test.name} on {device}: {why}")


def run_pair(ends: Ends, command: str) -> str:
    """Run the same command as server and client; return the client's output."""
    server = ends.server.popen(f"exec {command}")
    try:
        ends.server.run(_WHEN_LISTENING, timeout=TIMEOUT).check()
        client = ends.client.run(f"exec {command} {ends.address}", timeout=TIMEOUT)
        ends.server.wait(server, SERVER_GRACE)
    except CommandTimeoutError:
        server.kill()
        raise
    if client.status or server.status:
        said = client.stderr or bytes(server.stderr).decode(errors="replace")
        raise CommandFailedError(f"{command}: status {client.status}, {server.status}", said)
    return client.stdout
