"""Costs of guests of other processors: seconds of a boot, and processor time of server and QEMU.

    cd scripts/benchmarks; ../../.venv/bin/python -m booted.architectures amd64 s390x:sid

Prints rows of the tables in share/guide/architectures.md. A suite may follow the name.
"""

from __future__ import annotations

import sys
import time

import machine

from booted import guests
from booted.guests import Base, ServerProcess
from emu.guests import Guest
from emu.guests.architecture import ARCHITECTURES
from emu.guests.archive.names import DEFAULT_SUITE

DEVICES = ("connectx6", "connectx6")
BOOT_SECONDS = 400
COMMANDS = ("ib_write_bw -F -n 2000 -s 65536 -d mlx5_0", "ibv_rc_pingpong -n 5000 -d mlx5_0")
TIMEOUT = 240.0
LOOPBACK = "{0} > /dev/null & sleep 1; {0} 127.0.0.1 && wait $!"


def spent(server: ServerProcess) -> tuple[float, float]:
    """Return the processor seconds of the server, and of QEMU with its launcher."""
    seconds = server.cpu_seconds
    return seconds, machine.own_seconds() - seconds


def measure(name: str, suite: str) -> list[float]:
    """Boot a guest; return seconds until it is ready, and both costs of the boot and each command.

    An architecture without verbs has no commands.
    """
    before, began = machine.own_seconds(), time.monotonic()
    options = {"arch": name, "devices": DEVICES, "cold": True, "boot_timeout": BOOT_SECONDS}
    with guests.booted(Base(suite), **options) as guest:
        server = ServerProcess()
        seconds, qemu = spent(server)
        result = [time.monotonic() - began, seconds, qemu - before]
        for command in COMMANDS if ARCHITECTURES[name].has_verbs else ():
            result += cost(guest, server, command)
    return result


def cost(guest: Guest, server: ServerProcess, command: str) -> list[float]:
    """Return the processor seconds of server and QEMU for a command and its peer."""
    before = spent(server)
    guest.run(LOOPBACK.format(command), timeout=TIMEOUT).check()
    return [after - start for after, start in zip(spent(server), before, strict=True)]


def main() -> None:
    """Print a row for each argument."""
    for argument in sys.argv[1:] or [DEFAULT_SUITE]:
        name, _, suite = argument.partition(":")
        row = measure(name, suite or DEFAULT_SUITE)
        print(f"| {name} | " + " | ".join(f"{seconds:.1f}" for seconds in row) + " |", flush=True)


if __name__ == "__main__":
    main()
