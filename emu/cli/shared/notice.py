"""Prints what a command says beside its output."""

from __future__ import annotations

import click

from emu.host.printable import printable


def notice(text: str) -> None:
    """Print ``mlx5emu: TEXT`` to standard error; control characters are escaped, newlines kept."""
    click.echo(f"mlx5emu: {printable(text)}", err=True)
