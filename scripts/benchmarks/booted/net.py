"""Ethernet in a guest, against virtio-net in the same boot, measured alternately.

A TCP stream between guest and host uses passt. A stream between two interfaces of the one guest
uses two network namespaces: functions of one segment, virtio-net on a hub of QEMU's. Each interface
has a namespace of its own, so both sides get the same commands.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from figures import Row, Section, ratio_at_least
from machine import Quiet

from booted import guests
from booted.guests import Base, ServerProcess
from emu.guests import Guest
from emu.server.net.eth.passt import program

REPEAT = 3
SECONDS = 4.0
DEVICES = ("connectx6dx", "connectx6dx,segment=1", "connectx6dx,segment=1")
OURS, THEIRS = "mlx5e", "virtio-net"
MTUS = (1500, 9000)
PORT = 5201
TIMEOUT = 120.0
MIN_DATAGRAMS = 0.5
_BLOCK = bytes(128 << 10)
_SCRIPT = Path(__file__).parent / "inside" / "stream.py"

# The first interface of each driver is connected to the host; the other two are a pair.
_NAMESPACES = r"""set -e
modprobe virtio_net
for driver in mlx5_core virtio_net; do
    number=0
    for nic in $(for at in /sys/class/net/*/device/driver; do
        case $(readlink $at) in */$driver) echo $(readlink -f ${at%/driver}) ${at%/device/driver};;
        esac; done | sort | sed 's|.*/||'); do
        space=$driver$number number=$((number + 1))
        ip netns add $space
        ip link set $nic netns $space
        ip -n $space link set lo up
        ip -n $space link set $nic name net0 up
        case $space in *1|*2) ip -n $space address add 10.9.0.${space#$driver}/24 dev net0;; esac
    done
done
cat > /tmp/lease <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add $ip/${mask:-24} dev $interface
ip route add $router dev $interface 2> /dev/null
ip route add default via $router
END
chmod +x /tmp/lease
for driver in mlx5_core virtio_net; do
    ip netns exec ${driver}0 busybox udhcpc -i net0 -n -q -t 20 -s /tmp/lease >&2
done
ip -n mlx5_core0 -j route show default
"""


def measure(base: Base, repeat: int | None, quiet: Quiet) -> list[Section]:
    """Run every test on both sides alternately, ``repeat`` times."""
    with _passt() as path:
        netdevs = (
            f"stream,id=v0,addr.type=unix,addr.path={path},server=off",
            "hubport,id=v1,hubid=0",
            "hubport,id=v2,hubid=0",
        )
        arguments = [
            word
            for number, netdev in enumerate(netdevs)
            for word in ("-netdev", netdev, "-device", f"virtio-net-pci,netdev=v{number}")
        ]
        with guests.booted(
            base,
            devices=DEVICES,
            server_options=("--net", "user,mtu=9000"),
            qemu_arguments=tuple(arguments),
        ) as guest:
            world = World(guest)
            takes = {
                (name, side): partial(take, side)
                for name, take in world.tests()
                for side in (OURS, THEIRS)
            }
            samples = guests.take_turns(repeat or REPEAT, quiet, takes)
            share = world.cpu_share
    rows = [
        Row(
            name,
            "Mbit/s" if "TCP" in name else "1000/s",
            samples[name, OURS],
            samples[name, THEIRS],
            ratio_at_least(1.0 if "TCP" in name else MIN_DATAGRAMS),
        )
        for name, _ in world.tests()
    ]
    remarks = [
        "One stream each, counted by its receiver; a guest of two processors.",
        f"The server uses {share:.0%} of a processor while ours are measured.",
    ]
    return [Section("net", "Ethernet, against virtio-net", rows, OURS, THEIRS, remarks)]


class World:
    """Namespaces of the guest, and the host's end of the connections out of them."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._server = ServerProcess()
        self._cpu_s = self._wall_s = 0.0
        shared = _SCRIPT.read_text()
        guest.run(["tee", "/tmp/stream.py"], stdin=shared.encode()).check()
        (route,) = json.loads(guest.run(_NAMESPACES, timeout=TIMEOUT).check().stdout)
        self._gateway = route["gateway"]

    @property
    def cpu_share(self) -> float:
        """Fraction of a processor that the server has used, in the tests of our interfaces."""
        return self._cpu_s / self._wall_s if self._wall_s else 0.0

    def tests(self) -> Iterator[tuple[str, Callable[[str], float]]]:
        """Yield names, each with a function that takes one sample of a side."""
        for mtu in MTUS:
            for name, take in (
                ("guest to host", self._up),
                ("host to guest", self._down),
                ("between two interfaces", self._between),
            ):
                yield f"TCP, {name}, MTU {mtu}", self._timed(take, mtu)
        yield "datagrams of 18 B between two interfaces", self._timed(self._datagrams, MTUS[0])

    def _timed(self, take: Callable[[str], float], mtu: int) -> Callable[[str], float]:
        def sample(side: str) -> float:
            driver = "mlx5_core" if side == OURS else "virtio_net"
            for number in range(len(DEVICES)):
                command = f"ip -n {driver}{number} link set net0 mtu {mtu}"
                self._guest.run(command, timeout=TIMEOUT).check()
            cpu_s, start = self._server.cpu_seconds, time.monotonic()
            value = take(driver)
            if side == OURS:
                self._cpu_s += self._server.cpu_seconds - cpu_s
                self._wall_s += time.monotonic() - start
            return value

        return sample

    def _command(self, space: str, *words: object) -> list[str]:
        return ["ip", "netns", "exec", space, "python3", "/tmp/stream.py", *map(str, words)]

    def _run(self, space: str, *words: object) -> str:
        return self._guest.run(self._command(space, *words), timeout=TIMEOUT).check().stdout

    def _up(self, driver: str) -> float:
        with HostEnd(_drain) as host:
            self._run(f"{driver}0", "source", self._gateway, host.port, SECONDS)
            found, seconds = host.result()
        return found * 8 / seconds / 1e6

    def _down(self, driver: str) -> float:
        with HostEnd(_feed) as host:
            found, seconds = json.loads(self._run(f"{driver}0", "fetch", self._gateway, host.port))
        return float(found * 8 / seconds / 1e6)

    def _between(self, driver: str) -> float:
        found, seconds = self._pair(driver, "sink", "source", "/proc/net/tcp", "0A")
        return found * 8 / seconds / 1e6

    def _datagrams(self, driver: str) -> float:
        found, seconds = self._pair(driver, "count", "datagrams", "/proc/net/udp", "07")
        return found / seconds / 1e3

    def _pair(
        self, driver: str, receiver: str, sender: str, table: str, state: str
    ) -> tuple[float, float]:
        waiting = self._guest.popen(self._command(f"{driver}2", receiver, "10.9.0.2", PORT))
        listening = f"until grep -q ':{PORT:04X} .* {state} ' {table}; do sleep 0.05; done"
        self._guest.run(
            ["ip", "netns", "exec", f"{driver}2", "sh", "-c", listening], timeout=TIMEOUT
        ).check()
        self._run(f"{driver}1", sender, "10.9.0.2", PORT, SECONDS)
        self._guest.wait(waiting, TIMEOUT)
        found, seconds = json.loads(bytes(waiting.stdout))
        return float(found), float(seconds)


class HostEnd:
    """Server on the host's loopback that serves one connection in a thread."""

    def __init__(self, serve: Callable[[socket.socket], tuple[int, float]]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(TIMEOUT)
        self.port: int = self._server.getsockname()[1]
        self._found: tuple[int, float] = 0, 1.0
        self._thread = threading.Thread(target=self._work, args=(serve,), daemon=True)

    def _work(self, serve: Callable[[socket.socket], tuple[int, float]]) -> None:
        stream, _ = self._server.accept()
        with stream:
            self._found = serve(stream)

    def __enter__(self) -> HostEnd:
        self._thread.start()
        return self

    def result(self) -> tuple[int, float]:
        """Return bytes and seconds, when the connection has ended."""
        self._thread.join(TIMEOUT)
        return self._found

    def __exit__(self, *_: object) -> None:
        self._thread.join(TIMEOUT)
        self._server.close()


def _drain(stream: socket.socket) -> tuple[int, float]:
    room, found = bytearray(1 << 18), 0
    stream.recv_into(room)
    start = time.monotonic()
    while size := stream.recv_into(room):
        found += size
    return found, time.monotonic() - start


def _feed(stream: socket.socket) -> tuple[int, float]:
    start = time.monotonic()
    found = 0
    while time.monotonic() - start < SECONDS:
        stream.sendall(_BLOCK)
        found += len(_BLOCK)
    return found, SECONDS


@contextmanager
def _passt() -> Iterator[Path]:
    """Start a passt for virtio-net; yield its socket."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "passt")
        Path(directory).chmod(0o1777)  # Debian 12's passt drops its privileges before it binds
        command = [program(), "--foreground", "--quiet", "--mtu", "9000", "--socket", str(path)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while not path.exists() and process.poll() is None:
                time.sleep(0.05)
            yield path
        finally:
            process.terminate()
            process.wait()
