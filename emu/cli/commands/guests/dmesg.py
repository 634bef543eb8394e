"""``mlx5emu dmesg``: the kernel log of a guest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from emu.cli.shared.files import Existing
from emu.cli.shared.names import complete_guest
from emu.cli.shared.notice import notice
from emu.cli.shared.stored import stored_events
from emu.device.trace.event import KERNEL, TraceEvent
from emu.device.trace.text import FunctionNames, body, seconds
from emu.guests.named import running
from emu.guests.named.attach import ENDED, attached, follow_log, log_of, output_of
from emu.guests.timeline.clock import GuestClock
from emu.guests.timeline.kernel_log import log_events
from emu.guests.timeline.merge import merged
from emu.host.printable import printable
from emu.host.user_error import UserError
from emu.near import listed

_FEW = 8
"""Names of guests that a message lists."""


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
    a busy host to a few ms. Of a lab's trace, only events of the guest's functions are shown.

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
    for event in merged(_device_events(trace, name), log, clock):
        if as_json:
            sys.stdout.write(event.to_json() + "\n")
        else:
            owner = "  " if event.function == KERNEL else f"    f{event.function} {event.point:5} "
            time = seconds(clock.guest_ns(event.t_ns))
            click.echo(f"[{time:>12}]{owner}{printable(body(event))}")
    sys.stdout.flush()


def _device_events(trace: Path, name: str) -> Iterator[TraceEvent]:
    """Yield the events of the functions of a running guest, from the trace of its server.

    Raises UserError for the trace of other guests: the file of another server that runs, or, after
    events that name no guest, one that names guests without this one.
    """
    entry, guest = running.resolve(name)
    guest = guest or entry.guests[0]
    path, own = os.path.realpath(trace), entry.info.get(running.TRACE)
    is_lab = entry.info.get("lab")
    begin = "set `trace` in [server] of the lab's file" if is_lab else "start it with --trace FILE"
    how = f"that of {name} is {own}" if own else f"{name} has none: {begin}"
    writers = [one.name for one in running.entries() if one.info.get(running.TRACE) == path]
    if writers and path != own:
        raise UserError(f"{trace} is the trace of {writers[0]}; {how}")
    names = FunctionNames()
    for _, event in stored_events(str(trace)):
        names.learn(event)
        if names.guest(event.function) in (guest, None):
            yield event
    if (known := names.guests()) and guest not in known:
        raise UserError(f"{trace} is the trace of {listed(known, _FEW)}; {how}")
