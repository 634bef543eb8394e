"""``mlx5emu logs``: what a guest's processes on the host have written."""

from __future__ import annotations

import codecs
import io
import time
from pathlib import Path

import click

from emu.cli.shared.names import complete_guest
from emu.guests.named.attach import ENDED, SILENT, log_files, state_of
from emu.host.printable import printable
from emu.host.user_error import UserError

_LOGS = ("server", "console", "qemu")
_CHUNK = 1 << 16
_SECONDS = 0.5
"""How long --follow sleeps before it looks again."""


@click.command()
@click.option("-w", "--follow", is_flag=True, help="Go on with what comes, until the guest ends.")
@click.option(
    "--of",
    "whose",
    type=click.Choice(_LOGS),
    default=_LOGS[0],
    show_default=True,
    help="The server of its functions, the guest's console, or QEMU.",
)
@click.argument("name", shell_complete=complete_guest)
def logs(name: str, whose: str, follow: bool) -> None:
    """Show what the server of the guest NAME (in a lab, LAB/GUEST) has logged.

    Its warnings say what the driver did that the adapter refuses, or what a fault has done. A lab
    has one server for all its guests. The kernel's own log is `mlx5emu dmesg`'s.
    """
    files = log_files(name)
    if whose not in files:
        raise UserError(f"{name} has no functions, so there is no server")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = io.IncrementalNewlineDecoder(decoder, translate=True)  # consoles end lines with CR LF
    at = _show(files[whose], 0, text)
    while follow:
        is_last = state_of(name) in (*ENDED, SILENT)
        at = _show(files[whose], at, text)
        if is_last:
            return
        time.sleep(_SECONDS)


def _show(log: Path, at: int, text: io.IncrementalNewlineDecoder) -> int:
    """Print a log from a place on; returns where it ends. One that is not there yet is empty."""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return at
    with file:
        file.seek(at)
        while chunk := file.read(_CHUNK):
            click.echo(printable(text.decode(chunk)), nl=False)
        return file.tell()
