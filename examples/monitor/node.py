#!/usr/bin/env python3
"""A node's health monitor in short: says what changes of each mlx5 adapter, a line for each change.

    mlx5emu up node --share examples/monitor
    mlx5emu exec node -- python3 /mnt/share/node.py --seconds 60 &
    mlx5emu fault load node @link-flaps

It looks at what a monitor of a cluster's nodes looks at: states and counters of ports in
/sys/class/infiniband, devlink's health reporters, errors of mlx5_core in the kernel's log, and
whether a device is there at all. README.md has what each of some fault plans makes of these; put
your own monitor in its place.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

DEVICES = Path("/sys/class/infiniband")
PORT_FILES = ("state", "phys_state", "counters/link_downed", "counters/link_error_recovery")
LOG = re.compile(r"mlx5_core.*(Fatal error \d+|health recovery \w+|device's health compromised)")
INTERVAL = 0.1


def ports() -> Iterator[tuple[str, str]]:
    """What each port's files say; a device that has gone has none."""
    for device in sorted(DEVICES.glob("mlx5_*")):
        yield f"{device.name} device", "there"
        for port in sorted(device.glob("ports/*")):
            for name in PORT_FILES:
                try:
                    yield f"{device.name}/{port.name} {name}", (port / name).read_text().strip()
                except OSError as error:
                    yield f"{device.name}/{port.name} {name}", error.strerror or "error"


def reporters() -> Iterator[tuple[str, str]]:
    """States of devlink's health reporters, and how often they have seen an error."""
    said = subprocess.run(["devlink", "-j", "health", "show"], capture_output=True, check=False)
    try:
        health = json.loads(said.stdout)["health"]
    except (ValueError, KeyError):
        return
    for device, found in health.items():
        for one in found:
            if "reporter" in one:
                words = f"{one.get('state')}, {one.get('error')} errors"
                yield f"{device} {one['reporter']}", words


def log_lines(kmsg: int) -> Iterator[str]:
    """What mlx5_core has said since the last time."""
    while True:
        try:
            record = os.read(kmsg, 8192).decode(errors="replace")
        except BlockingIOError:
            return
        except BrokenPipeError:  # overwritten before it was read
            continue
        text = record.partition(";")[2].partition("\n")[0]
        if LOG.search(text):
            yield text


def main() -> None:
    """Look again and again, and print what has changed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it looks")
    end = time.monotonic() + parser.parse_args().seconds
    kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(kmsg, 0, os.SEEK_END)
    before: dict[str, str] | None = None
    while time.monotonic() < end:
        now = dict([*ports(), *reporters()])
        changes = [] if before is None else sorted(now.keys() | before.keys())
        for what in changes:
            was, becomes = (before or {}).get(what, "gone"), now.get(what, "gone")
            if was != becomes:
                sys.stdout.write(f"{what}: {was} -> {becomes}\n")
        for text in log_lines(kmsg):
            sys.stdout.write(f"log: {text}\n")
        if before is None:
            sys.stdout.write("watching\n")
        sys.stdout.flush()
        before = now
        time.sleep(INTERVAL)


if __name__ == "__main__":
    main()
