#!/usr/bin/env python3
"""What pause frames are good for: bursts that a receiver has no room for, without and with them.

Runs in a guest on two functions; the second one goes into a network namespace of its own:

    mlx5emu run --share examples/ethernet --device connectx6dx --device connectx6dx -- \
        python3 /mnt/share/pause.py

Each burst is many datagrams at once. Without pause frames the packets for which the receiver's
driver has posted no requests are lost (rx_out_of_buffer); with them at both ends the sender waits.
At the end it is an error if that is not so.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time

SENDER, RECEIVER, NAMESPACE = "eth0", "eth1", "receiver"
PORT, OCTETS, SEGMENTS, CALLS, BURSTS = 9, 1000, 60, 60, 5
SOL_UDP, UDP_SEGMENT, SO_SNDBUFFORCE = 17, 103, 32
COUNTERS = "rx_out_of_buffer", "tx_pause_ctrl_phy", "rx_pause_ctrl_phy"
IN = ("ip", "netns", "exec", NAMESPACE)


def run(*command: str) -> str:
    """What a command says. Raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def set_up() -> None:
    """Give each interface an address; nobody listens, and no ring has more than 1024 entries."""
    run("ip", "netns", "add", NAMESPACE)
    run("ip", "link", "set", RECEIVER, "netns", NAMESPACE)
    run("ip", "address", "add", "10.0.0.1/24", "dev", SENDER)
    run(*IN, "ip", "address", "add", "10.0.0.2/24", "dev", RECEIVER)
    run(*IN, "ethtool", "--set-priv-flags", RECEIVER, "rx_striding_rq", "off")
    run(*IN, "ethtool", "-L", RECEIVER, "combined", "1")
    run(*IN, "ethtool", "-G", RECEIVER, "rx", "256")
    for inside, name in ((), SENDER), (IN, RECEIVER):
        run(*inside, "ip", "link", "set", name, "up")
    run("ping", "-q", "-c", "1", "-w", "30", "10.0.0.2")


def set_pause(state: str) -> None:
    """Turn pause frames on or off at both ends."""
    for inside, name in ((), SENDER), (IN, RECEIVER):
        shown = run(*inside, "ethtool", "-a", name)
        if len(re.findall(rf"^[RT]X:\s+{state}$", shown, re.M)) != 2:
            run(*inside, "ethtool", "-A", name, "rx", state, "tx", state)


def counts() -> dict[str, int]:
    """The counters of both interfaces, added up."""
    said = run("ethtool", "-S", SENDER) + run(*IN, "ethtool", "-S", RECEIVER)
    found = re.findall(rf"^ *({'|'.join(COUNTERS)}): (\d+)$", said, re.M)
    return {name: sum(int(value) for one, value in found if one == name) for name in COUNTERS}


def send_bursts() -> None:
    """Datagrams as fast as they go, that the adapter cuts out of larger ones."""
    for _ in range(BURSTS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
            out.setsockopt(SOL_UDP, UDP_SEGMENT, OCTETS)
            for _ in range(CALLS):
                out.sendto(bytes(OCTETS * SEGMENTS), ("10.0.0.2", PORT))
        time.sleep(0.5)


def settle() -> None:
    """Wait until nothing of an earlier burst is under way: its end would be lost in this one."""
    received = None
    while received != (now := run(*IN, "cat", f"/sys/class/net/{RECEIVER}/statistics/rx_packets")):
        received = now
        time.sleep(0.5)


def main() -> int:
    """Send the bursts twice, and say what was counted."""
    set_up()
    lost = {}
    for state in ("off", "on"):
        set_pause(state)
        settle()
        before = counts()
        send_bursts()
        now = counts()
        seen = {name: now[name] - before[name] for name in COUNTERS}
        shown = " ".join(f"{name} {value}" for name, value in seen.items())
        sys.stdout.write(f"pause frames {state}: {shown}\n")
        lost[state] = seen["rx_out_of_buffer"]
        if (state == "on") != bool(seen["tx_pause_ctrl_phy"]):
            return 1
    return int(not lost["off"] or bool(lost["on"]))


if __name__ == "__main__":
    sys.exit(main())
