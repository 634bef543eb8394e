"""DPDK's mlx5 driver, which makes its queues by DEVX: testpmd forwards between two functions.

Each of its ports is on a segment of its own, with one more function whose kernel interface is in a
network namespace: what these two send each other passes testpmd.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.dpdk import PING, dpdk_guest, forwarded, pmd_script
from helpers.guest.guests import SECONDS

from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.server.control import Client

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

DEVICES = (
    "connectx6dx,segment=1", "connectx6dx,segment=2",
    "connectx6dx-vf,segment=1", "connectx6dx-vf,segment=2",
)  # fmt: skip
CHECKED_STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
MAC = "/sys/class/net/{}/address"
ONE_WAY = """
ip -n end2 neighbour replace 10.0.0.3 lladdr $(ip netns exec end3 cat {mac}) dev eth2
ip netns exec end2 python3 -c '
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for _ in range(200):
        out.sendto(bytes(100), ("10.0.0.3", 9))
'
sleep 1
""".format(mac=MAC.format("eth3"))

STREAM = """
ip netns exec end3 timeout 120 python3 /tmp/checked_stream.py listen 10.0.0.3 > /tmp/got &
listener=$!
until ip netns exec end3 ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done
ip netns exec end2 timeout 60 sh -c 'until ping -q -c 1 -W 1 10.0.0.3; do :; done'
sent=$(ip netns exec end2 python3 /tmp/checked_stream.py send 10.0.0.3 2000000)
wait $listener
test "$(tail -n 1 /tmp/got)" = "$sent"
"""
RECEIVE_WAYS = {
    "as it is": "",
    "not compressed": ",rxq_cqe_comp_en=0",
    "one by one": ",rx_vec_en=0",
    "several in a buffer": ",mprq_en=1,rxqs_min_mprq=1",
    "several in a buffer, one by one": ",mprq_en=1,rxqs_min_mprq=1,rx_vec_en=0",
    "flow tags": ",rxq_cqe_comp_en=2",
    "checksums": ",rxq_cqe_comp_en=3",
    "header types": ",rxq_cqe_comp_en=4",
    "enhanced": ",rxq_cqe_comp_en=0x81",
    "enhanced, one by one": ",rxq_cqe_comp_en=0x81,rx_vec_en=0",
    "enhanced, flow tags": ",rxq_cqe_comp_en=0x82,rx_vec_en=0",
    "enhanced, header types": ",rxq_cqe_comp_en=0x84",
    "enhanced, several in a buffer": ",rxq_cqe_comp_en=0x83,mprq_en=1,rxqs_min_mprq=1,rx_vec_en=0",
}
"""What a program can ask of DPDK's driver: where packets come to lie, what completions tell."""
SEND_WAYS = {
    "several in a request": ",txq_mpw_en=1",
    "one by one": ",txq_mpw_en=0",
    "inline": ",txq_inline_max=204,txqs_min_inline=1,txq_mpw_en=0",
    "several in a request, inline": ",txq_inline_mpw=268,txqs_min_inline=1",
}
"""How packets are handed to the adapter."""

RULES = """
set -e
ip -n end2 neighbour replace 10.0.0.3 lladdr $(ip netns exec end3 cat {mac}) dev eth2
rm -f /tmp/in
mkfifo /tmp/in
stdbuf -oL dpdk-testpmd -l 0,1 --in-memory -a 01:00.0 -- -i --rxq=4 --txq=4 --forward-mode=rxonly \
    < /tmp/in > /tmp/out 2>&1 &
pmd=$!
exec 3> /tmp/in
said() {{
    for _ in $(seq 300); do
        grep -q "$1" /tmp/out && return
        sleep 0.2
    done
    cat /tmp/out
    exit 1
}}
number=0
rule() {{
    echo "flow create 0 $1 ingress pattern eth / ipv4 / udp $2 / end actions $3 / end" >&3
    said "rule #$number created"
    number=$((number + 1))
}}
[ -z "$group" ] || rule "" "" "jump $group"
dropping=$number
rule "$group" "dst is 1000" "count / drop"
rule "$group" "dst is 1001" "queue index 2"
rule "$group" "dst is 1002" "mark id 77 / queue index 3"
rule "$group" "dst is 1003" "rss queues 1 end types ipv4-udp end"
echo "set verbose 1" >&3
echo start >&3
said "rxonly packet forwarding packets/burst"
ip netns exec end2 python3 -c '
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for port in (1000, 1001, 1002, 1003):
        for _ in range(20):
            out.sendto(bytes(100), ("10.0.0.3", port))
'
said "UDP port=1003"
# The driver reads counters once a second, and answers with what it has read last.
for _ in $(seq 20); do
    echo "flow query 0 $dropping count" >&3
    sleep 0.5
    ! grep -q "hits: 20$" /tmp/out || break
done
echo "flow flush 0" >&3
echo "stop" >&3
said Done
echo quit >&3
wait $pmd
cat /tmp/out
""".format(mac=MAC.format("eth3"))

TYPES = """
set -e
rm -f /tmp/in
mkfifo /tmp/in
stdbuf -oL dpdk-testpmd -l 0,1 --in-memory -a 01:00.0 -- -i --forward-mode=rxonly \
    < /tmp/in > /tmp/out 2>&1 &
pmd=$!
exec 3> /tmp/in
said() {
    for _ in $(seq 300); do
        grep -q "$1" /tmp/out && return
        sleep 0.2
    done
    cat /tmp/out
    exit 1
}
echo "set verbose 1" >&3
echo start >&3
said "rxonly packet forwarding packets/burst"
ip netns exec end2 python3 -c '
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind(("eth2", 0))
    for frame in sys.argv[1:]:
        out.send(bytes.fromhex(frame))
' FRAMES
said "length=LAST "
echo stop >&3
said Done
echo quit >&3
wait $pmd
cat /tmp/out
"""

V4 = "L2_ETHER L3_IPV4_EXT_UNKNOWN"
V6 = "L2_ETHER L3_IPV6_EXT_UNKNOWN"
ICMP, IPV6_FRAGMENT = 1, 44
SYN, ACK, PUSH = 0x02, 0x10, 0x08
MORE = 0x2000
"""IPv4's flag for a fragment that is not the last one."""
ADDRESSES = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}
FIRST_OF_V6 = bytes((UDP, 0, 0, 1, 0, 0, 0, 7))
SECOND_OF_V6 = bytes((UDP, 0, 1, 0, 0, 0, 0, 7))
KINDS = [
    ("L2_ETHER", None),
    (f"{V4} L4_NONFRAG", {"protocol": ICMP}),
    (f"{V4} L4_UDP", {"protocol": UDP}),
    (f"{V4} L4_TCP", {"flags": SYN}),
    (f"{V4} L4_TCP", {"flags": ACK}),
    (f"{V4} L4_TCP", {"flags": ACK | PUSH}),
    (f"{V4} L4_FRAG", {"protocol": UDP, "fragment": MORE}),
    (f"{V4} L4_FRAG", {"protocol": UDP, "fragment": 100}),
    (f"{V6} L4_NONFRAG", ADDRESSES | {"protocol": ICMP, "chain": 58}),
    (f"{V6} L4_UDP", ADDRESSES | {"protocol": UDP, "chain": UDP}),
    (f"{V6} L4_TCP", ADDRESSES),
    (f"{V6} L4_FRAG", ADDRESSES | {"protocol": UDP, "chain": IPV6_FRAGMENT, "extra": FIRST_OF_V6}),
    (f"{V6} L4_FRAG", ADDRESSES | {"protocol": UDP, "chain": IPV6_FRAGMENT, "extra": SECOND_OF_V6}),
]
"""What testpmd calls a packet's type, by the completion (mlx5_rxtx.c: mlx5_set_ptype_table)."""
SHORTEST = 901
"""Payload of the first of them: each has a length of its own, which no packet of the kernel has."""


def frames_of_kinds():
    """A frame of each kind, by its type."""
    made = {}
    for number, (kind, fields) in enumerate(KINDS):
        payload = bytes(SHORTEST + 40 * number)
        if fields is None:
            frame = MACS + b"\x08\x06" + payload
        else:
            frame = EthPacket(payload=payload, **fields).frame()
        made[len(frame)] = kind, b"\xff" * 6 + frame[6:]
    return made


@pytest.fixture(scope="module")
def guest(lab, suite):
    return dpdk_guest(lab, suite, DEVICES)


def compressed(guest):
    """Packets that the first function has told of by compressed completions."""
    with Client(guest.control_socket) as control:
        return control.status()["functions"][0]["counts"]["compressed_completions"]


@pytest.mark.parametrize("mode", ["--forward-mode=io", "--forward-mode=macswap"])
def test_forwarding(guest, mode):
    """What one port has received the other one has sent, and all pings have come back."""
    is_io = mode.endswith("io")
    traffic = PING if is_io else ONE_WAY
    said = guest.run(pmd_script(mode, traffic), timeout=SECONDS).check().stdout
    counts = forwarded(said)
    assert counts[0][0] == counts[1][1]
    assert counts[1][0] == counts[0][1]
    if is_io:
        assert "50 packets transmitted, 50 received" in said
        assert min(counts[0] + counts[1]) >= 50
    else:
        assert counts[0][0] >= 200


def stream(guest, args):
    """A TCP stream passes, whose large sends bring many packets at once; how many they were."""
    guest.run("cat > /tmp/checked_stream.py", stdin=CHECKED_STREAM.read_bytes()).check()
    script = pmd_script("--forward-mode=io", STREAM, args=args)
    said = guest.run(script, timeout=SECONDS).check().stdout
    counts = forwarded(said)
    assert counts[0][0] >= 2_000_000 // 1448
    assert (counts[0][0], counts[1][0]) == (counts[1][1], counts[0][1])
    return counts[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("args", SEND_WAYS.values(), ids=SEND_WAYS)
def test_ways_to_send(guest, args):
    stream(guest, args)


@pytest.mark.slow
@pytest.mark.parametrize("args", RECEIVE_WAYS.values(), ids=RECEIVE_WAYS)
def test_ways_to_receive(guest, args):
    before = compressed(guest)
    packets = stream(guest, args)
    now = compressed(guest) - before
    assert now > packets // 3 if args != RECEIVE_WAYS["not compressed"] else now == 0


@pytest.mark.slow
@pytest.mark.parametrize("group", ["", "group 1"], ids=["root", "jump"])
def test_rules(guest, group):
    """Rules of rte_flow: dropped and counted, to a queue, with a mark, to the queues of a set.

    Those of a group, to which one of the root table jumps, the driver writes into the adapter's
    memory itself (dv_flow_en=1, by mlx5dv_dr). The packets' types come from the completions.
    """
    said = guest.run(f"group='{group}'\n{RULES}", timeout=SECONDS).check().stdout
    assert re.search(r" hits: 20\b", said)
    came = re.findall(r"UDP port=(\d+) - Receive queue=0x(\d)", said)
    assert {(port, queue) for port, queue in came} == {("1001", "2"), ("1002", "3"), ("1003", "1")}
    assert re.search(r"FDIR matched ID=0x4d .* UDP port=1002 ", said)
    types = {found.split()[-1] for found in re.findall(r"hw ptype: (.*?)  ?- sw ptype.* UDP", said)}
    assert types == {"L4_UDP"}


def test_types_of_packets(guest):
    """By its completion alone the driver knows what a packet is: as its application has to see."""
    frames = frames_of_kinds()
    assert len(frames) == len(KINDS)
    script = TYPES.replace("LAST", str([*frames][-1])).replace(
        "FRAMES", " ".join(frame.hex() for _, frame in frames.values())
    )
    said = guest.run(script, timeout=SECONDS).check().stdout
    found = re.findall(r"length=(\d+) .*? hw ptype: (.*?) +- sw ptype", said)
    types = {int(length): kind for length, kind in found}
    assert {length: types.get(length) for length in frames} == {
        length: kind for length, (kind, _) in frames.items()
    }
