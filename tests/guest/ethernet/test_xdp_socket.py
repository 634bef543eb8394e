"""AF_XDP sockets on mlx5e: with zero copy the queues use the program's own memory (core/en/xsk)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow]

HERE, THERE = "10.0.1.1", "10.0.1.2"
UP = two_namespaces("eth0", "eth1", HERE, THERE) + f"ping -c 1 -W 20 {THERE}"
DOWN = "ip netns del peer"
SLOWER = re.compile("Expected slowdown with XSK frame size")
SOCKET = Path(__file__).parents[1] / "inside" / "xdp_socket.py"
ANSWERED = f"""
ethtool -L eth0 combined 1
ip link set eth0 mtu {{mtu}}
ip -n peer link set eth1 mtu {{mtu}}
python3 /tmp/xdp_socket.py eth0 {{mode}} 5 {{frames}} > /tmp/socket 2>&1 &
until grep -q copy /tmp/socket; do sleep 0.2; done
{IN_PEER}ip neighbour replace {HERE} lladdr $(cat /sys/class/net/eth0/address) dev eth1
{IN_PEER}ping -c 5 -W 1 -i 0.3 -s {{size}} {HERE} > /tmp/ping || :
wait
cat /tmp/socket /tmp/ping
ip link set eth0 mtu 1500
ip -n peer link set eth1 mtu 1500
ethtool -L eth0 combined 2
ping -c 1 -W 20 {THERE}
"""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up."""
    options = GuestOptions(suite=suite, devices=("connectx6dx", "connectx6dx-vf"), hugepages=4)
    with prepared(lab, options, UP, DOWN) as guest, no_complaints(guest, known=SLOWER):
        guest.run("cat > /tmp/xdp_socket.py", stdin=SOCKET.read_bytes()).check()
        yield guest


@pytest.mark.parametrize(
    ("mode", "frames", "said"),
    [
        ("zero", "4096", "zero copy\n"),
        ("zero", "2048", "zero copy\n"),
        ("zero", "4096 anywhere", "zero copy\n"),
        ("zero", "3072 anywhere", "zero copy\n"),
        ("zero", "3500 anywhere", "zero copy\n"),
        ("copy", "4096", "copy\n"),
    ],
    ids=["pages", "half pages", "unaligned", "three quarters", "other sizes", "copies"],
)
def test_pings_are_answered(guest, mode, frames, said):
    """By the socket, not by the kernel; afterwards by the kernel again.

    The driver maps frames of each kind in another way (core/en/params.c: mlx5e_mpwrq_umr_mode).
    """
    out = run(guest, ANSWERED.format(mode=mode, frames=frames, mtu=1500, size=1400))
    assert out.startswith(said)
    assert "5 answered" in out
    assert "5 received" in out


@pytest.mark.parametrize("frames", ["4096", "4096 anywhere"])
@pytest.mark.parametrize("mode", ["zero", "copy"])
def test_long_pings_are_answered(guest, mode, frames):
    """At the largest MTU of a program whose frames are in one buffer (core/en/xdp.h)."""
    out = run(guest, ANSWERED.format(mode=mode, frames=frames, mtu=3498, size=3498 - 28))
    assert out.startswith(f"{mode} copy\n" if mode == "zero" else "copy\n")
    assert "5 answered" in out
    assert "5 received" in out


@pytest.mark.parametrize("mode", ["zero", "copy"])
def test_packets_have_time_stamps(guest, mode):
    """A program asks the driver for them, which Linux can since 6.3.

    The program finds the function by the kernel's types, which a kernel without BTF does not have.
    """
    there = (
        "grep -q bpf_xdp_metadata_rx_timestamp /proc/kallsyms && test -e /sys/kernel/btf/vmlinux"
    )
    if guest.run(there).status:
        pytest.skip("this kernel has no metadata for such programs")
    out = run(guest, ANSWERED.format(mode=f"{mode}+stamps", frames=4096, mtu=1500, size=1400))
    assert "5 answered" in out
    assert "5 received" in out
