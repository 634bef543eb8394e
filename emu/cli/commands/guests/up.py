"""``mlx5emu up``: starts a guest that runs in the background until ``mlx5emu down``."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import click
import cloup

from emu.cli.options.debug import (
    Debugging,
    await_gdb,
    gdb_option,
    invite,
    with_debugging,
)
from emu.cli.options.guest import (
    described,
    guest_options,
    prepare,
    to_options,
)
from emu.cli.shared.names import new_name
from emu.cli.shared.notice import notice
from emu.cli.shared.progress import working
from emu.guests import Guest
from emu.guests.errors import LabError
from emu.guests.named import daemon, running
from emu.guests.named.exec_server import GuestHandle
from emu.guests.options import Use

logger = logging.getLogger(__name__)


@cloup.command(short_help="Start a guest in the background.")
@click.argument("name", callback=new_name)
@guest_options(Use.UP)
@gdb_option
def up(name: str, gdb: str | None, **choices: object) -> None:
    """Start a guest that runs in the background until `mlx5emu down NAME`.

    `exec`, `ssh`, `cp` and `dmesg` use the guest by its NAME. After a panic, `dmesg` and `dump`
    still work; after a reboot, the guest accepts commands again.

    Example: mlx5emu up dev --device connectx7
    """
    chosen = to_options(**with_debugging(choices, Debugging(gdb)))
    options = dataclasses.replace(chosen, stays=True, hostname=name)
    prepare(options)
    info = described(options, name)

    def start(stack: contextlib.ExitStack) -> Mapping[str, GuestHandle]:
        guest = stack.enter_context(Guest(options))
        if gdb is not None:
            info["gdb"] = str(await_gdb(guest, gdb))
            if options.hold_probe:
                threading.Thread(target=_probe, args=(guest,), name="probe", daemon=True).start()
        return {name: guest}

    daemon.launch(name, info, start, working(f"booting {name}"))
    if gdb is not None:
        invite(gdb, Path(running.find(name).info["gdb"]))
    click.echo(f"{name} is up: mlx5emu exec {name} -- COMMAND")
    if others := running.full_names(name):
        notice(f"{name} means this guest now, not {' or '.join(others)}")


def _probe(guest: Guest) -> None:
    """Probe the functions once the debugger resumes the guest; log a failure."""
    try:
        guest.probe()
    except LabError as error:
        logger.warning("probing the functions failed: %s", error)
