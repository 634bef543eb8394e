"""The file of a trace, written without blocking."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from emu.device.function.tracer import Tracer
from emu.device.ports import Clock
from emu.device.trace.event import TraceEvent
from emu.device.trace.recorder import LineSink, Recorder
from emu.device.trace.text import TextForm
from emu.host.truncated_output import LimitError, complaint
from emu.host.userfiles import open_outfile

FORMS: Mapping[str, Callable[[], Callable[[TraceEvent], str]]] = {
    "json": lambda: TraceEvent.to_json,
    "text": TextForm,
}
"""Formats of an event, by the user's names."""

DEFAULT_FORM = "json"
DEFAULT_MIB = 1024


class TraceFile:
    """A file or a pipe that accepts whole lines at once or fails: a :class:`recorder.Stream`.

    The file is unbuffered, so a trace is complete however the process ends. If a pipe's reader is
    too slow, writing fails instead of blocking the device.
    """

    def __init__(self, path: Path, most_mib: int = DEFAULT_MIB) -> None:
        """Open the file. Raises OSError if that fails, or for a pipe without a reader."""
        self._limit = self._left = most_mib << 20
        self._fd = open_outfile(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)

    def write(self, text: str) -> None:
        """Write the whole text without blocking, or fail.

        Raises LimitError, without writing, if the file would become too long; every later write
        fails then. Raises OSError (BlockingIOError for a full pipe), after which the file may
        contain a part.
        """
        data = text.encode()
        self._left -= len(data)
        if self._left < 0:
            raise LimitError(f"the limit of {self._limit >> 20} MiB is reached")
        while data:
            written = os.write(self._fd, data)
            if not written:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            data = data[written:]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Trace:
    """The recorders of a process, which share a file."""

    def __init__(
        self,
        path: Path,
        form: str,
        most_mib: int = DEFAULT_MIB,
        guests: Sequence[str] = (),
        vf_names: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Open the file; ``guests`` has the name of each function's guest, or is empty.

        ``vf_names`` has the names of virtual functions by index.

        Raises OSError when the file cannot be opened, or is a pipe without a reader.
        """
        self._path = path
        self._guests = guests
        self._vf_names = vf_names
        self._file = TraceFile(path, most_mib)
        self._sink = LineSink(self._file, FORMS[form]())

    def recorder(self, index: int, clock: Clock) -> Tracer:
        """Return a recorder for the function with that index."""
        guest = self._guests[index] if self._guests else ""
        return Recorder(self._sink, clock, index, guest, self._vf_names.get(index, ""))

    @property
    def complaint(self) -> str:
        """The missing end of the file, if any."""
        return complaint("trace", self._path, self._sink.ended_by)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
