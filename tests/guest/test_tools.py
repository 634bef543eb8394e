"""The programs that people try first: rdma-core's pingpongs and perftest, within one guest."""

from __future__ import annotations

import pytest
from helpers.kernel_log import KernelLog, server_complaints

from emu.guest import GuestOptions

pytestmark = pytest.mark.guest

PORT = 18515
SECONDS = 120
WHEN_LISTENING = f'until grep -q ":{PORT:04X} .* 0A " /proc/net/tcp*; do sleep 0.02; done; exec'
"""Hexadecimal port and state TCP_LISTEN, as /proc/net/tcp shows them."""

ITERATIONS = 300
PINGPONGS = {
    "rc": f"ibv_rc_pingpong -c -n {ITERATIONS}",
    "uc": f"ibv_uc_pingpong -c -n {ITERATIONS}",
    "ud": f"ibv_ud_pingpong -c -n {ITERATIONS}",
    "srq": f"ibv_srq_pingpong -c -n {ITERATIONS}",
    "xsrq": f"ibv_xsrq_pingpong -c 1 -n {ITERATIONS}",
}
"""Where -c checks the received bytes; xsrq's is the number of clients."""

PERFTESTS = (
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw",
    "ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat",
    "ib_send_lat -e", "ib_write_bw -c UC", "ib_send_bw -c UC", "ib_send_bw -c UD",
    "ib_write_bw -q 8", "ib_write_bw -s 1048576", "ib_send_bw -b",
)  # fmt: skip


@pytest.fixture
def guest(lab, suite):
    """The guest that rdma-core's tests also use."""
    return lab.get(GuestOptions(suite=suite, devices=("connectx6-vf",)))


@pytest.fixture
def pair(guest):
    """Runs a command as server and as client; their outputs."""
    log = KernelLog(guest)

    def run(command):
        server = guest.popen(["sh", "-c", f"exec {command}"])
        client = guest.run(f"{WHEN_LISTENING} {command} 127.0.0.1", timeout=SECONDS)
        status = guest.wait(server, SECONDS)
        said = bytes(server.stdout).decode(), client.stdout
        errors = bytes(server.stderr).decode() + client.stderr
        assert (status, client.status) == (0, 0), (*said, errors)
        return said

    yield run
    assert log.complaints() == []
    assert server_complaints(guest) == []


@pytest.mark.parametrize("waiting", ["", "-e"], ids=["polling", "events"])
@pytest.mark.parametrize("service", PINGPONGS)
def test_pingpong(pair, service, waiting):
    for said in pair(f"{PINGPONGS[service]} {waiting} -p {PORT}"):
        assert f"{ITERATIONS} iters in" in said or "success" in said, said
        assert "invalid data" not in said


@pytest.mark.parametrize("command", PERFTESTS)
def test_perftest(pair, command):
    _, said = pair(f"{command} -F -n {ITERATIONS} -p {PORT}")
    *_, table = said.partition("#bytes")
    size, iterations, best, *_ = table.splitlines()[1].split()
    assert int(size) > 0
    assert int(iterations) >= ITERATIONS
    assert float(best) > 0
