"""DPDK's hairpin queues: what arrives leaves again, and no program sees it.

testpmd makes a hairpin queue beside its own one on each port. It counts packets of its own queues
only, so the ports' counters and those of rte_flow tell what has passed.
"""

import re
from struct import pack

import pytest
from helpers.guest.dpdk import dpdk_guest
from helpers.guest.guests import SECONDS

from emu.driver.ethernet.frames import UDP, EthPacket

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

DEVICES = (
    "connectx6dx,board=1,segment=1", "connectx6dx,board=1,segment=2",
    "connectx6dx-vf,segment=1", "connectx6dx-vf,segment=2",
)  # fmt: skip
FRAMES = {
    port: EthPacket(protocol=UDP, ports=pack(">HH", 900, port), payload=bytes(range(100))).frame()
    for port in (1000, 1001, 1002)
}
DATAGRAM = 108
"""Bytes of a UDP header and its payload: each frame ends with them, whatever is put in front."""
TAG = bytes.fromhex("81000005")
VXLAN_HEADERS = 50
SEES_ALL = """
for number in 2 3; do
    other=$((5 - number))
    mac=$(ip netns exec end$other cat /sys/class/net/eth$other/address)
    ip -n end$number neighbour replace 10.0.0.$other lladdr $mac dev eth$number
    ip -n end$number link set eth$number promisc on
done
"""
TESTPMD = """
set -e
rm -f /tmp/in
mkfifo /tmp/in
stdbuf -oL dpdk-testpmd -l 0,1 --in-memory DEVICES -- -i --rxq=1 --txq=1 --hairpinq=1 \
    --hairpin-mode=MODE < /tmp/in > /tmp/out 2>&1 &
pmd=$!
exec 3> /tmp/in
said() {
    for _ in $(seq 300); do
        ! grep -q "$1" /tmp/out || return 0
        sleep 0.2
    done
    cat /tmp/out
    exit 1
}
created() {
    echo "flow create $1 ingress pattern eth / ipv4 $2 / end actions $3 queue index 1 / end" >&3
    said "rule #$4 created"
}
said "testpmd> "
echo start >&3
TRAFFIC
echo "show port xstats all" >&3
said "tx_pp_sync_lost"
echo stop >&3
echo quit >&3
wait $pmd || echo "testpmd: status $?"
cat /tmp/out
"""
BETWEEN = """
created 0 "" "count /" 0
created 1 "" "count /" 0
ip netns exec end2 timeout 60 sh -c 'until ping -q -c 1 -W 1 10.0.0.3; do :; done'
ip netns exec end2 ping -q -c 50 -i 0.02 -s 1000 -W 5 10.0.0.3
"""
OUT_AGAIN = """
created 0 "/ udp dst is 1000" "" 0
created 0 "/ udp dst is 1001" "of_push_vlan ethertype 0x8100 / of_set_vlan_vid vlan_vid 5 /" 1
echo "set vxlan ip-version ipv4 vni 77 udp-src 5000 udp-dst 4789 ip-src 1.1.1.1 ip-dst 2.2.2.2 \
eth-src 02:00:00:00:00:01 eth-dst 02:00:00:00:00:02" >&3
created 0 "/ udp dst is 1002" "vxlan_encap /" 2
ip netns exec end2 python3 -c '
import socket, struct, sys
PACKET, AUXDATA, TAGGED = 263, 8, 1 << 4
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as end:
    end.bind(("eth2", 0))
    end.setsockopt(PACKET, AUXDATA, 1)
    end.settimeout(20)
    frames = [bytes.fromhex(frame) for frame in sys.argv[1:]]
    for frame in frames:
        end.send(frame)
    came = dict.fromkeys([frame[-DATAGRAM:] for frame in frames])
    while not all(came.values()):
        frame, beside, _, address = end.recvmsg(2000, 100)
        if address[2] == socket.PACKET_OUTGOING or frame[-DATAGRAM:] not in came:
            continue
        status, *_, tci, tpid = struct.unpack("3I4H", beside[0][2])
        tag = struct.pack(">HH", tpid, tci) if status & TAGGED else b""
        came[frame[-DATAGRAM:]] = frame[:12] + tag + frame[12:]
    print("came", *[frame.hex() for frame in came.values()])
' FRAMES
""".replace("DATAGRAM", str(DATAGRAM))


@pytest.fixture(scope="module")
def guest(lab, suite):
    return dpdk_guest(lab, suite, DEVICES, SEES_ALL)


def through(guest, devices, mode, traffic):
    """Run testpmd while there is traffic: what was said, and each port's counters."""
    script = TESTPMD.replace("DEVICES", devices).replace("MODE", mode).replace("TRAFFIC", traffic)
    said = guest.run(script, timeout=SECONDS).check().stdout
    ports = said.split("NIC extended statistics for port ")[1:]
    return said, [
        {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)", port, re.M)}
        for port in ports
    ]


def test_between_two_ports(guest):
    """All pings and their answers pass, of which testpmd's own queues get none."""
    said, ports = through(guest, "-a 01:00.0 -a 02:00.0", "0x12", BETWEEN)
    assert "50 packets transmitted, 50 received" in said
    for port in ports:
        assert port["rx_unicast_packets"] >= 51
        assert port["tx_unicast_packets"] >= 51
        assert port["rx_q1_packets"] == port["hairpin_out_of_buffer"] == 0
        assert port["rx_q0_packets"] < 30


def test_out_of_the_same_port(guest):
    """As they are, with a tag, in a tunnel: DPDK moves what puts headers on to the way out.

    It gives the packets a number for that on the way in, in register B, and finds it in register A.
    RSS may give each to another receive queue of the end that they come back to, so their order is
    not a matter of the test.
    """
    frames = " ".join(frame.hex() for frame in FRAMES.values())
    traffic = OUT_AGAIN.replace("FRAMES", frames)
    said, (port,) = through(guest, "-a 01:00.0", "0", traffic)
    line = next(line for line in said.splitlines() if line.startswith("came "))
    plain, tagged, tunnelled = map(bytes.fromhex, line.split()[1:])
    assert plain == FRAMES[1000]
    assert tagged == FRAMES[1001][:12] + TAG + FRAMES[1001][12:]
    assert tunnelled[VXLAN_HEADERS:] == FRAMES[1002]
    assert port["tx_unicast_packets"] == len(FRAMES)
