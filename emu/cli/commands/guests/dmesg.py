"""``mlx5emu dmesg``: the kernel log of a guest."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from emu.cli.shared.files import Existing
from emu.cli.shared.names import complete_guest
from emu.cli.shared.notice import notice
from emu.cli.shared.stored import stored_events
from emu.device.trace.event import KERNEL
from emu.device.trace.text import body, seconds
from emu.guests.named.attach import ENDED, attached, follow_log, log_of, output_of
from emu.guests.timeline.clock import GuestClock
from emu.guests.timeline.kernel_log import log_events
from emu.guests.timeline.merge import merged
from emu.host.printable import printable


@click.command(short_help="Show the kernel log of a guest.")
@click.option(
    "--trace",
    type=Existing(),
    help="Merge in the device events of this file, which --trace of `up` records.",
)
@click.option("-w", "--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="With --trace, print the merged trace as JSON."
)
@click.argument("name", shell_complete=complete_guest)
def dmesg(name: str, trace: Path | None, follow: bool, as_json: bool) -> None:
    """Show the kernel log of the guest NAME (in a lab, LAB/GUEST).

    The log of a guest that has panicked or powered off is that of its console: warnings and worse.

    With --trace, times are the guest's. The order of device and kernel events is exact to 1 ms, on
    a busy host to a few ms.

    Example: mlx5emu dmesg dev --trace dev.trace
    """
    if trace is None:
        if as_json:
            raise click.UsageError("--json needs --trace")
        if follow:
            follow_log(name, partial(click.echo, nl=False))
            return
        text, state = log_of(name)
        click.echo(printable(text), nl=False)
        if state in ENDED:
            notice(f"{name}: {state}; this log is from its console")
        return
    if follow:
        raise click.UsageError("use --trace or --follow, not both")
    with attached(name) as channel:
        channel.ask("clock").wait()
    log = list(log_events(output_of(name, ["dmesg"]).decode(errors="replace")))
    clock = GuestClock.of_log(log)
    for event in merged((event for _, event in stored_events(str(trace))), log, clock):
        if as_json:
            sys.stdout.write(event.to_json() + "\n")
        else:
            owner = "  " if event.function == KERNEL else f"    f{event.function} {event.point:5} "
            time = seconds(clock.guest_ns(event.t_ns))
            click.echo(f"[{time:>12}]{owner}{printable(body(event))}")
    sys.stdout.flush()
