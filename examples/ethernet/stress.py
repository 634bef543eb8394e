#!/usr/bin/env python3
"""Ethernet traffic that is checked byte by byte, while everything about its interface changes.

Runs in a guest on two functions; the second one goes into a network namespace of its own:

    mlx5emu run --share examples/ethernet --device connectx6dx --device connectx6dx-vf -- \
        python3 /mnt/share/stress.py --seconds 600

TCP streams over IPv4 and IPv6, both ways, and datagrams that come back pass between both, while
the interface gets other addresses, MTUs, numbers of queues, lengths of rings, offloads, hashes,
coalescing, filters, VLANs and rules, and goes down and comes up. Each stream has to move on after
each change, no byte may be another than was sent, and the driver may complain of nothing. At the
end it says what was done how often.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

PEER, MINE, THEIRS = "peer", "eth0", "eth1"
V4, V6 = ("10.8.0.1", "10.8.0.2"), ("fd08::1", "fd08::2")
PORT = 5000
POOL = random.Random(8).randbytes(1 << 20)
"""What is sent are parts of this, so that the receiver knows each byte."""
MAX_TCP, MAX_UDP = 1 << 16, 16_000
HEADER = struct.Struct(">II")
"""Where in the pool the bytes are from, and how many there are."""
STUCK_S = 90.0
UP = f"""
set -e
ip netns add {PEER}
ip link set {THEIRS} netns {PEER}
ip -n {PEER} link set lo up
ip address add {V4[0]}/24 dev {MINE}
ip address add {V6[0]}/64 dev {MINE} nodad
ip -n {PEER} address add {V4[1]}/24 dev {THEIRS}
ip -n {PEER} address add {V6[1]}/64 dev {THEIRS} nodad
for where in "" "ip netns exec {PEER}"; do
    $where sysctl -qw net.ipv4.conf.all.arp_notify=1 net.ipv6.conf.all.keep_addr_on_down=1
done
sysctl -qw net.ipv6.conf.{MINE}.ndisc_notify=1
ip link set {MINE} up
ip -n {PEER} link set {THEIRS} up
for _ in $(seq 100); do ping -c 1 -W 1 {V4[1]} > /dev/null && exit 0; done
exit 1
"""

moved: Counter[str] = Counter()
"""Bytes or datagrams that have arrived, by the stream's name."""


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def fail(why: str) -> NoReturn:
    """Say why and end the process, whichever thread this is."""
    say(f"FAILED: {why}")
    os._exit(1)


# -- traffic


def piece(chance: random.Random, most: int) -> tuple[int, bytes]:
    """Some bytes of the pool, and where they are from."""
    size = chance.choice((1, 40, 1400, 1461, most)) if chance.random() < 0.5 else (
        chance.randrange(1, most)
    )  # fmt: skip
    at = chance.randrange(len(POOL) - size)
    return at, POOL[at : at + size]


def send_stream(one: socket.socket) -> None:
    """Send pieces for ever."""
    chance = random.Random()
    with suppress(OSError):
        while True:
            at, data = piece(chance, MAX_TCP)
            one.sendall(HEADER.pack(at, len(data)) + data)


def receive_stream(one: socket.socket, name: str) -> None:
    """Check pieces for ever."""
    with suppress(OSError), one.makefile("rb") as stream:
        while head := stream.read(HEADER.size):
            if len(head) == HEADER.size:
                at, size = HEADER.unpack(head)
                if at + size > len(POOL):
                    fail(f"{name}: wrong bytes in a header: {head.hex()}")
                check(stream.read(size), at, size, name)
                moved[name] += size


def check(data: bytes, at: int, size: int, name: str) -> None:
    """Compare what has arrived with what was sent; a stream that has ended has less."""
    wanted = POOL[at : at + size]
    if data == wanted or (name.startswith("TCP") and data == wanted[: len(data)]):
        return
    wrong = [place for place, (one, other) in enumerate(zip(data, wanted)) if one != other]
    fail(
        f"{name}: {len(data)} bytes of {size}, from {at} of the pool: {len(wrong)} are wrong,"
        f" {wrong[:1]} to {wrong[-1:]}: {data[wrong[0] :][:32].hex() if wrong else ''}"
    )


def both_ways(one: socket.socket, name: str) -> None:
    """Let a connection carry pieces both ways."""
    threading.Thread(target=send_stream, args=(one,), daemon=True).start()
    threading.Thread(target=receive_stream, args=(one, name), daemon=True).start()


def serve() -> NoReturn:
    """The peer: a partner for each connection, and an echo of each datagram."""
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.bind(("::", PORT))

    def echo() -> None:
        while True:
            data, sender = udp.recvfrom(1 << 16)
            check_datagram(data, "datagram at the peer")
            with suppress(OSError):
                udp.sendto(data, sender)

    threading.Thread(target=echo, daemon=True).start()
    with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        say("ready")
        while True:
            one, _ = server.accept()
            both_ways(one, "TCP at the peer")


def check_datagram(data: bytes, name: str) -> None:
    """Compare a datagram with what was sent."""
    at, size = HEADER.unpack_from(data)
    check(data[HEADER.size :], at, size, name)


def datagrams(address: str, name: str) -> None:
    """Send datagrams one after the other, and check those that come back; some may get lost."""
    chance = random.Random()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.settimeout(1)
        while True:
            at, data = piece(chance, MAX_UDP)
            with suppress(OSError):
                one.sendto(HEADER.pack(at, len(data)) + data, (address, PORT))
                check_datagram(one.recv(1 << 16), name)
                moved[name] += 1


def start_traffic(streams: int) -> None:
    """Begin all kinds; each has a name in ``moved``."""
    for number in range(streams):
        address = (V4, V6)[number % 2][1]
        name = f"TCP {address} {number}"
        moved[name] = 0
        both_ways(socket.create_connection((address, PORT), timeout=None), name)
    for address in (V4[1], V6[1]):
        moved[f"UDP {address}"] = 0
        arguments = (address, f"UDP {address}")
        threading.Thread(target=datagrams, args=arguments, daemon=True).start()


# -- changes


def do(command: str) -> None:
    """Run a shell command, which must succeed."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{command}: {done.stderr.strip()}")


Change = Callable[[random.Random], str]


def mtu(chance: random.Random) -> str:
    size = chance.choice((1280, 1500, 3000, 9000, 9978))
    return f"ip link set {MINE} mtu {size}; ip -n {PEER} link set {THEIRS} mtu {size}"


def address(chance: random.Random) -> str:
    mine = chance.randrange(3, 200)
    return f"ip address add 10.8.0.{mine}/24 dev {MINE}; ip address del 10.8.0.{mine}/24 dev {MINE}"


def mac(chance: random.Random) -> str:
    return f"ip link set {MINE} address 02:00:00:00:00:{chance.randrange(1, 256):02x}"


def multicast(chance: random.Random) -> str:
    group = f"01:00:5e:00:08:{chance.randrange(256):02x}"
    return f"ip maddress add {group} dev {MINE}; ip maddress del {group} dev {MINE}"


def offload(chance: random.Random) -> str:
    name = chance.choice((
        "tso", "gso", "gro", "rx", "tx", "rxvlan", "txvlan", "rxhash", "ntuple",
        "rx-vlan-filter", "tx-udp-segmentation",
    ))  # fmt: skip
    return f"ethtool -K {MINE} {name} off; ethtool -K {MINE} {name} on"


def vlan(_chance: random.Random) -> str:
    return (
        f"ip link add link {MINE} name tagged type vlan id 8; ip link set tagged up;"
        "ip link del tagged"
    )


def rule(chance: random.Random) -> str:
    number = chance.randrange(1000)
    action = chance.choice((0, 1))
    return (
        f"ethtool -K {MINE} ntuple on;"
        f"ethtool -N {MINE} flow-type tcp4 src-ip {V4[1]} action {action} loc {number};"
        f"ethtool -N {MINE} delete {number}"
    )


CHANGES: dict[str, Change] = {
    "MTU": mtu,
    "address": address,
    "MAC address": mac,
    "multicast": multicast,
    "offload": offload,
    "VLAN": vlan,
    "rule": rule,
    "queues": lambda chance: f"ethtool -L {MINE} combined {chance.choice((1, 2))}",
    "rings": lambda chance: (
        f"ethtool -G {MINE} rx {1 << chance.randrange(6, 12)} tx {1 << chance.randrange(6, 12)}"
    ),
    "promiscuity": lambda _chance: (
        f"ip link set {MINE} promisc on; ip link set {MINE} promisc off;"
        f"ip link set {MINE} allmulticast on; ip link set {MINE} allmulticast off"
    ),
    "coalescing": lambda chance: (
        f"ethtool -C {MINE} adaptive-rx {chance.choice(('on', 'off'))}"
        f" adaptive-tx {chance.choice(('on', 'off'))};"
        f"ethtool -C {MINE} rx-frames {chance.randrange(1, 128)}"
    ),
    "hash": lambda chance: (
        f"ethtool -X {MINE} hfunc {chance.choice(('toeplitz', 'xor'))};"
        f"ethtool -N {MINE} rx-flow-hash tcp4 {chance.choice(('sd', 'sdfn'))}"
    ),
    "down and up": lambda _chance: f"ip link set {MINE} down; ip link set {MINE} up",
}


def wait_for_progress(change: str, peer: subprocess.Popen[str]) -> None:
    """Until each stream has moved on since the change."""
    before = dict(moved)
    end = time.monotonic() + STUCK_S
    while still := [name for name in before if moved[name] == before[name]]:
        if peer.poll() is not None and peer.stdout is not None:
            fail(f"the peer, after {change}: {peer.stdout.read()}")
        if time.monotonic() > end:
            fail(f"{', '.join(still)} stuck after {change}")
        time.sleep(0.05)


def complaints() -> list[str]:
    """What the driver, or a trace, says in the kernel's log.

    What becomes of service tags in promiscuous mode is no complaint (core/en_fs.c).
    """
    said = subprocess.run(["dmesg", "-l", "warn,err,crit"], capture_output=True, text=True)
    words = ("mlx5", "BUG", "WARNING", "NETDEV WATCHDOG", "csum failure", "stall")
    lines = [line for line in said.stdout.splitlines() if "vlan stripping" not in line]
    return [line for line in lines if any(word in line for word in words)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Traffic while its interface changes.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None, help="of the changes")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        serve()
    do(UP)
    subprocess.run(["dmesg", "-C"], check=True)
    words = ["ip", "netns", "exec", PEER, sys.executable, __file__, "--peer"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdout is not None
        peer.stdout.readline()
        start_traffic(arguments.streams)
        chance, done = random.Random(arguments.seed), Counter[str]()
        end = time.monotonic() + arguments.seconds
        while time.monotonic() < end:
            name = chance.choice(list(CHANGES))
            command = CHANGES[name](chance)
            say(command)
            do(command)
            wait_for_progress(command, peer)
            done[name] += 1
        peer.kill()
    if said := complaints():
        fail("the kernel says:\n" + "\n".join(said))
    for what, count in (*done.items(), *moved.items()):
        say(f"{what}: {count}")
    say("no byte wrong, no queue stuck, nothing in the log")
    os._exit(0)


if __name__ == "__main__":
    main()
