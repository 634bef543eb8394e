"""The file of a fault record."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pydantic

from emu.device.faults import record
from emu.device.faults.plan import Plan
from emu.device.faults.record import Fired
from emu.host.truncated_output import LimitError, complaint
from emu.server.service.fault_options import FaultOptions
from emu.server.service.trace_file import TraceFile
from emu.version import version

log = logging.getLogger(__name__)


class RecordFile:
    """A record's file; the first write error is logged and ends the record, but not the run."""

    def __init__(
        self,
        path: Path,
        plan: Plan,
        options: FaultOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the file and write its head; later lines have seconds of ``clock`` since then.

        Raises OSError.
        """
        self.path = path
        self._clock = clock
        self._began = clock()
        self._lines = 0
        self._ended_by: OSError | None = None
        self._file: TraceFile | None = TraceFile(path)
        self._write(record.line(record.head(plan, _versions(), options.devices, options.run)))

    def fired(self, fired: Fired) -> None:
        """Add a fault that fired."""
        self._write(replace(fired, seconds=self._seconds()).to_line())

    def changed(self, change: Mapping[str, object], commands: Sequence[int]) -> None:
        """Add a change of rules or links, and the number of commands of each function."""
        values = {**change, "commands": [*commands], "seconds": self._seconds()}
        self._write(record.line(values))

    def _seconds(self) -> float:
        """Return the seconds since the record began, to the microsecond."""
        return round(self._clock() - self._began, 6)

    def _write(self, line: str) -> None:
        """Add a line; do nothing after an earlier write failed.

        A write error, and the limit of lines, are logged and end the record: the file is closed and
        the run continues. Raises nothing; :attr:`complaint` has the reason.
        """
        if self._file is None:
            return
        self._lines += 1
        try:
            if self._lines > record.MAX_LINES:
                raise LimitError(f"the limit of {record.MAX_LINES} lines is reached")
            self._file.write(line)
        except OSError as error:
            self._ended_by = error
            log.warning("the record %s ends here, the run continues: %s", self.path, error)
            self.close()

    @property
    def complaint(self) -> str:
        """The missing end of the file, if any."""
        return complaint("record", self.path, self._ended_by)

    def close(self) -> None:
        """Close the file; later lines are dropped. May be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _versions() -> dict[str, str]:
    return {
        "mlx5emu": version(),
        "python": platform.python_version(),
        "pydantic": pydantic.VERSION,
    }
