"""Raw packet queue pairs beside RoCE: sniffers, as tcpdump -i mlx5_0 makes them, and loopback.

Debian's libpcap is built without RDMA, so a program of pyverbs listens.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers.guest.guests import FEW_KEYS, no_complaints, run
from helpers.guest.roce_guests import GID_OF_IPV4, GID_OF_IPV4_V1, ONE, UP

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "raw_packets.py"
ETHERNET, IPV4, UDP, GRH, BTH, ICRC, AETH = 14, 20, 8, 40, 12, 4, 4
V2, V1 = ETHERNET + IPV4 + UDP + BTH + ICRC, ETHERNET + GRH + BTH + ICRC
"""Bytes of a packet besides its data."""
MTU, MESSAGE = 1024, 3000


@pytest.fixture
def guest(lab, suite):
    """A guest whose interface has an IPv4 address."""
    guest = lab.get(
        GuestOptions(
            suite=suite, devices=("connectx6dx",), memory_mib=1024, kernel_arguments=FEW_KEYS
        )
    )
    run(guest, UP.format(address=ONE, nic="eth0").replace(" add ", " replace "))
    return guest


@pytest.fixture
def program(guest):
    """Run the program with a word."""
    guest.run("cat > /tmp/raw_packets.py", stdin=PROGRAM.read_bytes()).check()

    def go(*words):
        with no_complaints(guest):
            return run(guest, " ".join(["python3 /tmp/raw_packets.py", *map(str, words)]))

    return go


@pytest.mark.parametrize(
    ("index", "kind", "header"),
    [(GID_OF_IPV4, "udp 4791", V2), (GID_OF_IPV4_V1, "roce v1", V1)],
    ids=["v2", "v1"],
)
def test_a_sniffer_sees_roce(program, index, kind, header):
    """Each packet is seen as it leaves and as it comes, as both queue pairs are of one function."""
    *seen, afterwards = program("sniff", index).splitlines()
    lengths = (MTU + header, MTU + header, MESSAGE - 2 * MTU + header, AETH + header)
    expected = Counter(f"{kind} {length}" for length in lengths for _ in range(2))
    found = Counter(seen)
    assert {line: found[line] for line in expected} == expected
    assert afterwards == "afterwards 0"


def test_a_multicast_within_a_context(program):
    """mlx5_ib lets frames come back once a second context is open (main.c: mlx5_ib_enable_lb)."""
    assert program("group").splitlines() == [
        "alone False", "two contexts True", "itself False", "from the other True",
        "alone again False",
    ]  # fmt: skip


def test_kinds_of_flows(program, suite):
    """Some the kernel refuses itself: defaults that do not trap, and on Linux 7.2 all defaults."""
    found = dict(line.split(": ", 1) for line in program("flows").splitlines())
    refused = {kind for kind in found if kind.endswith("default, dont trap")}
    if suite == "sid":
        refused |= {"all default", "mc default"}
    assert {kind for kind, said in found.items() if said != "taken"} == refused
    assert len(found) == 9


def test_the_interface_tests_its_loopback(guest):
    """Which it has to enable for that (core/en_selftest.c: mlx5e_test_loopback_setup)."""
    assert "Loopback Test\t 0" in run(guest, "ethtool -t eth0 online")
