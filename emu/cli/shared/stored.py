"""Reads what --trace has recorded, for the commands that show it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emu.device.trace.event import TraceEvent
from emu.device.trace.stored import StoredTextError, TraceReader
from emu.host.user_error import UserError


def stored_events(file: str) -> Iterator[tuple[str, TraceEvent]]:
    """The lines of a stored trace with their events; says what it leaves out. Raises UserError."""
    with click.open_file(file, "rb") as stream:
        reader = TraceReader(stream, lambda number, why: _warn(f"{file}:{number}: left out: {why}"))
        try:
            yield from reader
        except StoredTextError:
            raise UserError(
                f"{file} is a trace in text form: read it as it is;"
                " this reads the JSON form (--trace-format json)"
            ) from None
    if reader.broken and not reader.events:
        raise UserError(f"{file} is no trace")
    if reader.broken > 1:
        _warn(f"{file}: {reader.broken} lines left out in all")


def _warn(message: str) -> None:
    click.echo(f"mlx5emu: {message}", err=True)
