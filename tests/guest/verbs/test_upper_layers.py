"""What else uses RoCE: the kernel's RDS and SMC-R, libfabric and qperf, between two guests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.guest.guests import (
    SECONDS,
    no_complaints_since_boot,
    on_a_fabric,
    reaches,
    run,
    running,
)
from helpers.guest.roce_guests import ONE, TWO, UP

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie")]

EXAMPLES = Path(__file__).parents[3] / "examples" / "sockets"
PACKAGES = ("libfabric-bin", "qperf")
KNOWN = re.compile("^smc: ")
"""It names its devices as warnings."""


@pytest.fixture(scope="module")
def guests(lab, suite, tmp_path_factory):
    """Two that hear each other and see the examples: first the server's."""
    options = on_a_fabric(suite, tmp_path_factory.mktemp("upper") / "socket")
    both = (replace(one, share=EXAMPLES, packages=PACKAGES) for one in options)
    with running(*both) as found:
        for guest, address in zip(found, (ONE, TWO)):
            run(guest, UP.format(address=address, nic="eth0"))
        reaches(found[0], TWO)
        yield found
        no_complaints_since_boot(*found, known=KNOWN)


def at(port):
    """A condition: something listens at this port of TCP."""
    return f"ss -Hltn sport = :{port} | grep -q LISTEN"


def ask(guests, listen, connect, is_ready):
    """What the client says, which is started once the server is ready; both have to end well."""
    server, client = guests
    job = server.popen(f"exec timeout {SECONDS} {listen}")
    run(server, f"until {is_ready}; do sleep 0.1; done")
    said = run(client, f"timeout {SECONDS} {connect}")
    assert server.wait(job, timeout=SECONDS) == 0
    return said


def test_rds(guests):
    for guest in guests:
        run(guest, "modprobe rds_rdma")
    program = "python3 /mnt/share/rds.py"
    waits = "grep -q waits /tmp/rds"
    said = ask(guests, f"{program} {ONE} > /tmp/rds", f"{program} {TWO} {ONE}", waits)
    assert said == "rds: 5 messages came back as they were\n"


def test_smc(guests):
    for guest in guests:
        run(guest, "modprobe smc")
    program = "python3 /mnt/share/smc.py"
    said = ask(guests, f"{program} {ONE}", f"{program} {TWO} {ONE}", at(5000))
    assert said == "smc: 1071001 bytes came back as they were, through mlx5_0\n"


@pytest.mark.parametrize("provider", ["verbs -e msg", "'verbs;ofi_rxm' -e rdm"])
def test_libfabric(guests, provider):
    """fi_pingpong compares what it receives (-c)."""
    program = f"fi_pingpong -p {provider} -c -I 10"
    said = ask(guests, program, f"{program} {ONE}", at(47592))
    sizes = [line.split()[0] for line in said.splitlines()]
    assert sizes == ["bytes", "64", "256", "1k", "4k", "64k", "1m"]


def test_qperf(guests):
    """Reliable connections by rdma_cm: it knows no other way with the address that RoCE wants."""
    tests = ["rc_bw", "rc_lat", "rc_rdma_write_bw", "rc_rdma_read_bw", "rc_rdma_read_lat"]
    said = ask(guests, "qperf", f"qperf -t 1 -cm 1 {ONE} {' '.join(tests)} quit", at(19765))
    assert [line[:-1] for line in said.splitlines() if line.endswith(":")][:5] == tests
