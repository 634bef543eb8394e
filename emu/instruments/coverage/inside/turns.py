"""The guest program, in User-Mode Linux, that carries out the fuzzer's turns and counts by KCOV.

One task does all of it, so a turn starts no process. A line of standard input is one JSON object:

- ``{"reset": true}``
- ``{"bind": true}``, for all functions
- ``{"run": SCRIPT, "class": HEX, "count": N, "mark": TEXT}``
- the same with ``"live": NAME`` instead of ``"run"``, for bound functions

Each line is answered by ``{"done": true}`` or ``{"said": LOG, "calm": true, "places": [ADDRESS,
...]}``; calm means no warning in the log. Counted is the driver's code in this task: probe,
removal, and the work of :mod:`live`. Programs of a script and kernel threads are not counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emu.instruments.coverage.inside.kcov import KCOV, KcovBuffer, enable
from emu.instruments.coverage.inside.live import WORKS
from emu.instruments.coverage.inside.modules import AUTOPROBE, CoverageError, check, run, tell

_WORDS = 1 << 20
_DEVICES = Path("/sys/bus/pci/devices")
_DRIVER = Path("/sys/bus/pci/drivers/mlx5_core")
_VENDOR = "0x15b3"
_KMSG = Path("/dev/kmsg")
_WARN_ONCE = Path("/sys/kernel/debug/clear_warn_once")
_RECORD_BYTES = 8192
_CAPABILITIES, _EXPRESS, _DEVICE_CONTROL, _FLR = 0x34, 0x10, 8, 1 << 15
_MAX_CAPABILITIES = 48
_NOTHING = ":"
_LEVELS = 8
_WARNING = 4


class InstrumentedTask:
    """The guest's functions, the kernel's log, and the addresses that this task ran."""

    def __init__(self) -> None:
        """Load the driver and enable KCOV. Raises OSError, CoverageError."""
        AUTOPROBE.write_text("0")
        check(run("modprobe", "-a", "mlx5_core", "mlx5_ib", "ib_uverbs", "ib_ipoib"))
        self._kcov = os.open(KCOV, os.O_RDWR | os.O_CLOEXEC)
        self._buffer = KcovBuffer(self._kcov, _WORDS)
        enable(self._kcov)
        self._log = os.open(_KMSG, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._log, 0, os.SEEK_END)
        self._functions = {
            path.name: (path / "class").read_text().strip()
            for path in sorted(_DEVICES.iterdir())
            if (path / "vendor").read_text().strip() == _VENDOR
        }
        self._used: list[str] = []
        self._places: set[int] = set()
        self._is_calm = True
        self._mark = ""

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request of the host (a line's JSON object); return the answer.

        ``done`` for reset and bind. For a script or live work: the new log, whether it has no
        warning, and the sorted addresses that ran. Raises KeyError for a request that lacks a key.
        """
        if "reset" in asked:
            return {"done": self.reset()}
        if "bind" in asked:
            return {"done": self.bind(list(self._functions))}
        self._begin(asked["mark"])
        slots = self._with_class(asked["class"], asked["count"])
        if "live" in asked:
            WORKS[asked["live"]](slots)
            self._places |= self._buffer.unique()
        else:
            self.run(asked["run"], slots)
        said = self._read_log()
        return {"said": said, "calm": self._is_calm, "places": sorted(self._places)}

    def reset(self) -> bool:
        """Unbind and reset (FLR) the last turn's functions, and re-arm WARN_ONCE.

        Return False, without resetting the rest, if a function stays bound.
        """
        for slot in self._used:
            if (_DEVICES / slot / "driver").exists():
                self._tell_driver("unbind", slot)
            if (_DEVICES / slot / "driver").exists():
                return False
            function_level_reset(_DEVICES / slot / "config")
        with contextlib.suppress(OSError):
            _WARN_ONCE.write_text("1")
        return True

    def bind(self, slots: list[str]) -> bool:
        """Bind mlx5_core to functions; return whether all are bound then.

        :meth:`reset` is then about these functions. A failing probe raises nothing.
        """
        self._used = slots
        for slot in self._used:
            self._tell_driver("bind", slot)
        return all((_DEVICES / slot / "driver").exists() for slot in self._used)

    def run(self, script: str, slots: list[str]) -> None:
        """Bind the functions, run the script in ``sh`` without output, and unbind the functions.

        The script ":" starts no process. Its status is ignored.
        """
        self.bind(slots)
        if script.strip() != _NOTHING:
            subprocess.run(
                ["sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        for slot in self._used:
            if (_DEVICES / slot / "driver").exists():
                self._tell_driver("unbind", slot)

    def _with_class(self, pci_class: str, count: int) -> list[str]:
        """Return up to ``count`` functions whose class begins with ``pci_class``.

        Any, if none has it.
        """
        like = [slot for slot, one in self._functions.items() if one.startswith(pci_class)]
        return (like or list(self._functions))[:count]

    def _begin(self, mark: str) -> None:
        """Write ``mark`` to the kernel's log; discard earlier log records and addresses."""
        self._mark = mark
        os.write(self._log, f"<2>{mark}".encode())
        self._read_log()
        self._is_calm = True
        self._buffer.unique()
        self._places.clear()

    def _tell_driver(self, what: str, slot: str) -> None:
        """Write to the driver's ``bind`` or ``unbind``; collect the addresses that ran.

        Ignores a failed write.
        """
        with contextlib.suppress(OSError):
            (_DRIVER / what).write_text(slot)
        self._places |= self._buffer.unique()

    def _read_log(self) -> str:
        """Return the new records in dmesg's format (Documentation/ABI/testing/dev-kmsg).

        "" for none. Clears ``_is_calm`` for a record of level WARNING or worse other than the mark.
        Overwritten records are skipped.
        """
        lines: list[str] = []
        while True:
            try:
                record = os.read(self._log, _RECORD_BYTES).decode(errors="replace")
            except BlockingIOError:
                return "".join(lines)
            except BrokenPipeError:  # records were overwritten
                continue
            prefix, _, text = record.partition(";")
            level, _, stamp_text, *_ = prefix.split(",")
            stamp = int(stamp_text)
            message = text.partition("\n")[0]
            self._is_calm &= message == self._mark or int(level) % _LEVELS > _WARNING
            lines.append(f"[{stamp // 1000000:5}.{stamp % 1000000:06}] {message}\n")


def function_level_reset(config: Path) -> None:
    """Initiate an FLR by the config file, without the kernel's wait of 100 ms.

    Does nothing for a function without a PCI Express capability. Afterwards the kernel reads BARs
    of zero; they matter only to a bus with addresses.
    """
    with config.open("r+b", buffering=0) as file:
        at = os.pread(file.fileno(), 1, _CAPABILITIES)[0]
        for _ in range(_MAX_CAPABILITIES):
            cap_id, following = os.pread(file.fileno(), 2, at)
            if cap_id == _EXPRESS:
                where = at + _DEVICE_CONTROL
                control = int.from_bytes(os.pread(file.fileno(), 2, where), "little") | _FLR
                os.pwrite(file.fileno(), control.to_bytes(2, "little"), where)
                return
            at = following


def main(_modules: list[str]) -> None:
    """Load the driver, enable KCOV, and answer lines until standard input ends.

    Writes the line ``ready`` first.

    Raises CoverageError without KCOV, or if a module cannot be loaded.
    """
    if not KCOV.exists():
        raise CoverageError("the kernel has no KCOV (CONFIG_KCOV)")
    try:
        turns = InstrumentedTask()
    except OSError as error:
        raise CoverageError(f"KCOV failed: {error}") from error
    tell(ready=True)
    for line in sys.stdin:
        tell(**turns.answer(json.loads(line)))
