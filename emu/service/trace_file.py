"""The file that a trace is written to, without blocking."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from emu.function.function import Tracer
from emu.host.userfiles import open_outfile
from emu.ports import Clock
from emu.trace.event import Event
from emu.trace.recorder import LineSink, Recorder
from emu.trace.text import TextForm

FORMS: Mapping[str, Callable[[], Callable[[Event], str]]] = {
    "json": lambda: Event.to_json,
    "text": TextForm,
}
"""Ways to write an event, by the names that users give them."""

DEFAULT_FORM = "json"


class TraceFile:
    """A file or a pipe that accepts whole lines at once or fails: a :class:`recorder.Stream`.

    Nothing is buffered, so a trace is complete however the process ends. If a pipe's reader is too
    slow, writing fails instead of blocking the device.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError when the file cannot be opened, or is a pipe that nobody reads."""
        self._fd = open_outfile(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)

    def write(self, text: str) -> None:
        """Write the text. Raises OSError, after which a part of it may be in the file."""
        data = text.encode()
        while data:
            written = os.write(self._fd, data)
            if not written:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            data = data[written:]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


@contextmanager
def recorders(path: Path, form: str) -> Iterator[Callable[[int, Clock], Tracer]]:
    """A maker of recorders that share one trace file; it takes a function's index and its clock."""
    file = TraceFile(path)
    try:
        sink = LineSink(file, FORMS[form]())
        yield lambda index, clock: Recorder(sink, clock, index)
    finally:
        file.close()
