"""``mlx5emu decode``: stack traces with source lines."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from emu.cli.shared.files import Existing
from emu.cli.shared.progress import working
from emu.guests.kernel.stack_trace import StackTraceDecoder
from emu.host.printable import printable

_MAX_BYTES = 64 << 20


@click.command()
@click.argument("tree", type=Existing(is_directory=True))
def decode(tree: Path) -> None:
    """Add source lines to the stack traces on standard input.

    TREE is the build tree of the kernel that printed them, with CONFIG_DEBUG_INFO.
    """
    text = sys.stdin.buffer.read(_MAX_BYTES).decode(errors="replace")
    with working("looking up source lines"):
        decoded = StackTraceDecoder(tree).decode(text)
    click.echo(printable(decoded))
