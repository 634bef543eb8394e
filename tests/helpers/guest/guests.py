"""What guest tests share: commands, complaints, a guest with two interfaces, two guests."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from emu.guests import Guest, GuestOptions
from helpers.guest.kernel_log import KernelLog, server_complaints

SECONDS = 240
"""For anything: a guest on emulated processors is slow, and one that hangs never ends."""

FEW_KEYS = ("mlx5_core.prof_sel=0",)
"""Kernel arguments: a physical function has no cache of 6000 memory keys, which the driver makes
one by one whenever its RDMA device comes, and destroys when it goes. It has fewer queue pairs."""

IN_PEER = "ip netns exec peer "
"""In front of a command: run it in the second interface's namespace (:func:`two_namespaces`)."""

_NIC = """
modprobe virtio_net
for device in /sys/class/net/*/device/driver; do
    case $(readlink $device) in *mlx5_core|*virtio_net) echo $device | cut -d/ -f5;; esac
done
"""


def run(guest, command):
    """What a command prints; the test fails when the command does."""
    return guest.run(command, timeout=SECONDS).check().stdout


def nic(guest):
    """The name of a guest's only network interface."""
    return run(guest, _NIC).strip()


def two_namespaces(first, second, here, there):
    """Shell commands: both interfaces up, the second in a network namespace of its own.

    So packets between them leave the guest, and do not take the kernel's loopback.
    """
    return f"""
ip netns add peer
ip link set {second} netns peer
ip address replace {here}/24 dev {first}
ip -n peer address replace {there}/24 dev {second}
ip link set {first} up
ip -n peer link set lo up
ip -n peer link set {second} up
until ip link show {first} | grep -q LOWER_UP && ip -n peer link show {second} | grep -q LOWER_UP
do
    sleep 0.1
done
"""


def two_ends():
    """Shell commands: eth2 and eth3 up, each in a network namespace of its own: end2 and end3."""
    return """
for number in 2 3; do
    ip netns add end$number
    ip link set eth$number netns end$number
    ip -n end$number link set lo up
    ip -n end$number address add 10.0.0.$number/24 dev eth$number
    ip -n end$number link set eth$number up
done
"""


def addresses_ready(first, second):
    """Shell commands: wait until both interfaces may use their IPv6 addresses."""
    return f"""
while ip -6 address show tentative | grep -q {first} ||
    ip -n peer -6 address show tentative | grep -q {second}; do
    sleep 0.1
done
"""


@contextmanager
def prepared(lab, options, up, down):
    """The lab's guest with these options, between the commands ``up`` and ``down``."""
    guest = lab.get(options)
    run(guest, f"set -e\n{up}")
    yield guest
    if guest.is_running:
        run(guest, down)


@contextmanager
def no_complaints(guest, known=None):
    """Neither kernel nor server complains meanwhile; a kernel's line that ``known`` finds may come.

    ``known``: a compiled expression.
    """
    log, before = KernelLog(guest), len(server_complaints(guest))
    yield
    assert _unknown(log, known) == []
    assert server_complaints(guest)[before:] == []


def no_complaints_since_boot(*guests, known=None):
    """Neither kernel nor server has complained, but for the kernel's lines that are ``known``."""
    for guest in guests:
        assert _unknown(KernelLog(guest, whole=True), known) == []
        if guest.options.devices:
            assert server_complaints(guest) == []


def _unknown(log, known):
    return [line for line in log.complaints() if not (known and known.search(line))]


def on_a_fabric(suite, path):
    """Options of two guests with an Ethernet function each, on the fabric at ``path``."""
    options = ("--fabric", f"unix:{path}")
    guest = GuestOptions(
        suite=suite,
        devices=("connectx6dx",),
        memory_mib=1024,
        server_options=options,
        kernel_arguments=FEW_KEYS,
    )
    return guest, guest


def with_qemus_nic(suite, path):
    """Options of a guest with an Ethernet function, and of one with QEMU's own NIC beside it."""
    ours = GuestOptions(
        suite=suite,
        devices=("connectx6dx",),
        memory_mib=1024,
        server_options=("--net", f"stream={path}"),
        kernel_arguments=FEW_KEYS,
    )
    netdev = f"stream,id=net,addr.type=unix,addr.path={path},server=off,reconnect-ms=500"
    qemu = ("-netdev", netdev, "-device", "virtio-net-pci,netdev=net")
    return ours, GuestOptions(suite=suite, devices=(), memory_mib=1024, qemu_arguments=qemu)


@contextmanager
def running(*options):
    """Guests with these options, booted at the same time and stopped at the end."""
    guests = [Guest(one) for one in options]
    try:
        with ThreadPoolExecutor(len(guests)) as pool:
            [*pool.map(Guest.start, guests)]
        yield guests
    finally:
        for guest in guests:
            guest.stop()


def pings(guest, options, count=2):
    """Each of some pings is answered; ``options`` end with the address.

    One at a time: of several, ping waits for the last ones no longer than two round trips.
    """
    run(guest, f"for _ in $(seq {count}); do ping -c 1 -W 20 {options} || exit 1; done")


def reaches(guest, address):
    """Wait until an address answers; the test fails when it does not within a minute or more."""
    run(guest, f"for _ in $(seq 60); do ping -c 1 -W 1 {address} && exit; done; exit 1")


def check_tcp(one, two, address):
    """Two seconds of TCP each way between two guests; ``address`` is the second one's."""
    job = two.popen("exec iperf3 --server --one-off")
    run(two, "until ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done")
    said = json.loads(run(one, f"iperf3 -c {address} -t 2 --bidir -J"))
    assert two.wait(job, timeout=SECONDS) == 0
    for way in ("sum_received", "sum_received_bidir_reverse"):
        assert said["end"][way]["bytes"] > 1 << 16
