"""``mlx5emu logs``: the logs of a guest's processes on the host."""

from __future__ import annotations

import codecs
import io
import time
from pathlib import Path

import click

from emu.cli.shared.names import complete_guest
from emu.cli.shared.notice import notice
from emu.cli.shared.params import NearChoice
from emu.guests.named.attach import ENDED, SILENT, log_files, state_of
from emu.host.printable import printable
from emu.host.user_error import UserError

_LOGS = ("server", "console", "qemu")
_CHUNK = 1 << 16
_SECONDS = 0.5
"""Interval at which --follow reads the log."""


@click.command(short_help="Show the logs of a guest's host processes.")
@click.option("-w", "--follow", is_flag=True, help="Print new lines until the guest stops.")
@click.option(
    "--of",
    "whose",
    type=NearChoice(_LOGS),
    default=_LOGS[0],
    show_default=True,
    help="Log to show: the device server's, the guest's console, or QEMU's.",
)
@click.argument("name", shell_complete=complete_guest)
def logs(name: str, whose: str, follow: bool) -> None:
    """Show the device server's log of the guest NAME (in a lab, LAB/GUEST).

    Its warnings report driver mistakes that the adapter refused, and effects of faults. A lab has
    one server for all its guests. `mlx5emu dmesg` shows the kernel log.

    Example: mlx5emu logs dev --follow
    """
    files = log_files(name)
    if whose not in files:
        raise UserError(f"{name} has no functions and therefore no device server")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = io.IncrementalNewlineDecoder(decoder, translate=True)  # consoles end lines with CR LF
    at = _show(files[whose], 0, text)
    if not at and not follow:
        notice("the log is empty")
    while follow:
        is_last = state_of(name) in (*ENDED, SILENT)
        at = _show(files[whose], at, text)
        if is_last:
            return
        time.sleep(_SECONDS)


def _show(log: Path, at: int, text: io.IncrementalNewlineDecoder) -> int:
    """Print a log from offset ``at`` on; return the offset of its end. An absent log is empty."""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return at
    with file:
        file.seek(at)
        while chunk := file.read(_CHUNK):
            click.echo(printable(text.decode(chunk)), nl=False)
        return file.tell()
