"""Reads files of --trace, for commands that show them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emu.cli.shared.notice import notice
from emu.device.trace.event import TraceEvent
from emu.device.trace.stored import StoredTextError, TraceReader
from emu.host.counted import counted
from emu.host.user_error import UserError


def stored_events(file: str) -> Iterator[tuple[str, TraceEvent]]:
    """Yield the lines of a stored trace with their events; warn about lines left out.

    ``-`` is standard input. Raises UserError for a trace in text form, and for a file without
    events.
    """
    with click.open_file(file, "rb") as stream:
        reader = TraceReader(stream, lambda line, why: notice(f"{file}:{line}: left out: {why}"))
        try:
            yield from reader
        except StoredTextError:
            raise UserError(
                f"{file} is a trace in text form, which needs no decoding;"
                " this command reads the JSON form (--trace-format json)"
            ) from None
    if reader.broken and not reader.events:
        raise UserError(f"{file} is not a trace")
    if reader.broken > 1:
        notice(f"{file}: {counted(reader.broken, 'line')} left out in total")
