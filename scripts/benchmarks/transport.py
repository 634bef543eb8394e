"""Cost of a BAR access on each transport, without a guest and without QEMU.

A forked process is the client. The results per transport are the round trips of a 4-byte read and
of an 8-byte write. A further result is the time of each posted 8-byte write in a burst, until all
have been executed. Prints a table, and JSON with --json.
"""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import click
from fabric import in_child
from figures import Row, Section, ratio_at_most
from tables import json_option, show

# The test suite's client is used.
from emu.driver.transport.vfio_client import VfioClient
from emu.server.vfio.base import Transport, TransportError
from emu.server.vfio.kinds import DEFAULT_KIND, KINDS, make_transport
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import (
    DEVICE_INFO,
    REGION_ACCESS,
    REGION_REQUEST,
    MessageFlag,
    VfioCommand,
)

MEASURES = ("read 4", "write 8", "posted write 8")
Samples = dict[str, list[float]]


class Bar:
    """Function with one BAR and no work, so that only the transport's own cost is measured."""

    bar_sizes = (1 << 24, 0, 0, 0, 0, 0)
    msix_vectors = 1
    is_round_used = False

    def config_read(self, offset: int, length: int) -> bytes:
        return bytes(length)

    def config_write(self, offset: int, data: object) -> None:
        pass

    def bar_read(self, bar: int, offset: int, length: int) -> bytes:
        return b"\0\0\0\0"

    def bar_write(self, bar: int, offset: int, data: object) -> None:
        pass

    def reset(self) -> None:
        pass

    def forget_views(self) -> None:
        pass

    def poll(self) -> bool:
        return False


def round_trips(sock: socket.socket, request: bytes, count: int) -> list[float]:
    """Return the microseconds of each of ``count`` requests."""
    send, receive, clock = sock.send, sock.recv, time.perf_counter_ns
    samples = []
    for _ in range(count):
        start = clock()
        send(request)
        receive(4096)
        samples.append((clock() - start) / 1000)
    return samples


def request(cmd: int, count: int, data: bytes = b"", flags: int = 0) -> bytes:
    """Return an access to the start of BAR 0."""
    size = REGION_REQUEST.size + len(data)
    return REGION_REQUEST.pack(1, cmd, size, flags, 0, 0, 0, count) + data


def posted_burst(client: VfioClient, count: int) -> float:
    """Return microseconds per posted write for ``count`` writes, until all have been executed."""
    write = request(VfioCommand.REGION_WRITE, 8, bytes(8), MessageFlag.NO_REPLY)
    send = client.sock.send
    start = time.perf_counter_ns()
    for _ in range(count):
        send(write)
    client.call(VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4))
    return (time.perf_counter_ns() - start) / 1000 / count


def measure(path: Path, rounds: int, count: int) -> Samples:
    """Run the client's side."""
    client = VfioClient(path)
    client.negotiate()
    client.call(VfioCommand.DEVICE_GET_INFO, DEVICE_INFO.pack(16, 0, 0, 0))
    read, write = (
        request(VfioCommand.REGION_READ, 4),
        request(VfioCommand.REGION_WRITE, 8, bytes(8)),
    )
    samples: Samples = {name: [] for name in MEASURES}
    for _ in range(rounds):
        samples["read 4"] += round_trips(client.sock, read, count)
        samples["write 8"] += round_trips(client.sock, write, count)
        samples["posted write 8"].append(posted_burst(client, count))
    client.close()
    return samples


def serve_until_left(loop: Loop, transport: Transport) -> None:
    """Serve one client of a transport of this loop until it disconnects."""
    while not transport.connected:
        loop.step(None)
    while transport.connected:
        loop.step(None)


def bench(kind: str, rounds: int, count: int) -> Samples:
    """Return all samples of one transport."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "socket")
        transport, loop = make_transport(kind, path), Loop()
        transport.listen(Bar())
        loop.add_transport(transport)
        wait = in_child(lambda: measure(path, rounds, count))
        serve_until_left(loop, transport)
        loop.close()
        return wait()


def measure_all(rounds: int, count: int) -> Section:
    """Measure every available transport; the goal is that ours is no slower."""
    samples: dict[str, Samples] = {}
    remarks = []
    for kind in KINDS:
        try:
            samples[kind] = bench(kind, rounds, count)
        except TransportError as error:
            remarks.append(f"{kind} is left out: {error}.")
    ours = samples[DEFAULT_KIND]
    other = next((kind for kind in samples if kind != DEFAULT_KIND), "")
    theirs = samples.get(other, {})
    rows = [
        Row(name, "us", ours[name], theirs.get(name, ()), ratio_at_most(1.0)) for name in MEASURES
    ]
    title = "BAR access over a socket, without QEMU"
    return Section("transport", title, rows, f"own ({DEFAULT_KIND})", other, remarks)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, help="Repetitions.")
@click.option("--count", default=5000, show_default=True, help="Accesses of a kind in a round.")
@json_option
def main(rounds: int, count: int, as_json: bool) -> None:
    """Measure."""
    section = measure_all(rounds, count)
    show([section], as_json=as_json)


if __name__ == "__main__":
    main()
