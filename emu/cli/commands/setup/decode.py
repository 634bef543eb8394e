"""``mlx5emu decode``: adds source lines to stack traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from emu.cli.shared.files import Existing
from emu.cli.shared.progress import working
from emu.guests.kernel.stack_trace import StackTraceDecoder
from emu.host.printable import printable

_MAX_BYTES = 64 << 20


@click.command(short_help="Add source lines to kernel stack traces.")
@click.argument("tree", type=Existing(is_directory=True))
def decode(tree: Path) -> None:
    """Add source lines to the kernel stack traces on standard input.

    TREE is the build tree of the kernel that printed them, with CONFIG_DEBUG_INFO.

    Example: mlx5emu dmesg dev | mlx5emu decode ~/linux
    """
    text = sys.stdin.buffer.read(_MAX_BYTES).decode(errors="replace")
    with working("looking up source lines"):
        decoded = StackTraceDecoder(tree).decode(text)
    click.echo(printable(decoded))
