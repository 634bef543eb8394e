"""Counts calls in a running guest: starts :mod:`coverage.inside` there and reads its answers."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emu.guests.channel import frames
from emu.guests.errors import GuestError
from emu.guests.guest.guest import Guest
from emu.guests.kernel.binaries import unpack_module
from emu.instruments.coverage import inside
from emu.instruments.coverage.data import Coverage, CoveredFunction, CoveredKernel, CoveredModule
from emu.model_words import first_in_words

LOAD_SECONDS = 240.0
READ_SECONDS = 60.0
POLL_SECONDS = 0.5
_MAX_BYTES = 64 << 20


class CoverageSession:
    """Counts calls of modules, beginning with their loading.

    The guest has booted without loading them (``GuestOptions.probe`` false). :meth:`start` loads
    them and lets the driver probe the functions, :meth:`finish` stops counting. The modules cannot
    be unloaded in between, as the counters hold references.
    """

    def __init__(self, guest: Guest, modules: Sequence[str]) -> None:
        self.bases: dict[str, int] = {}
        """Address of each module's ``.text``, set by :meth:`finish`."""
        self._guest = guest
        self._modules = modules
        self._output = bytearray()
        self._stderr = bytearray()
        self._first_line = threading.Event()
        words = ["python3", "-I", "-c", self._program(), *modules]
        self._job = guest.popen(words, has_input=True, sink=self._take)

    def start(self) -> None:
        """Wait until the modules are loaded and the functions probed.

        Raises GuestError after 240 s, if the guest or the program ends, or with the program's
        error.
        """
        deadline = time.monotonic() + LOAD_SECONDS
        while not self._first_line.wait(POLL_SECONDS):
            if self._job.status is not None or not self._guest.is_running:
                self._guest.wait(self._job, READ_SECONDS)
                break
            if time.monotonic() > deadline:
                raise GuestError(f"coverage: modules not loaded after {LOAD_SECONDS:g} s")
        self._answer(0)

    def finish(self) -> Coverage:
        """Stop counting and return the counts; set ``bases``.

        Raises GuestError for a missing or invalid answer, or with the program's error.
        """
        answer = self._end()
        try:
            self.bases = {name: int(about["base"]) for name, about in answer["modules"].items()}
            return _coverage(answer)
        except ValidationError as error:
            why = first_in_words(error)
            raise GuestError(f"coverage: invalid answer of the guest: {why}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise GuestError(f"coverage: invalid answer of the guest: {error}") from None

    def _end(self) -> dict[str, Any]:
        """End the program's input, wait for its end and return its second line, the counts.

        Raises GuestError if the answer is missing or has an error.
        """
        self._job.close_input()
        self._guest.wait(self._job, READ_SECONDS)
        return self._answer(1)

    def _program(self) -> str:
        return inside.program("functions")

    def _take(self, kind: int, data: bytes) -> None:
        """Store output of the program.

        Note its first complete line. Raises GuestError above 64 MiB.
        """
        into = self._output if kind == frames.STDOUT else self._stderr
        into += data
        if kind == frames.STDOUT and b"\n" in data:
            self._first_line.set()
        if len(into) > _MAX_BYTES:
            raise GuestError(f"coverage: the guest sent more than {_MAX_BYTES >> 20} MiB")

    def _answer(self, number: int) -> dict[str, Any]:
        """Return line ``number`` of the program's output as a JSON object.

        Raises GuestError if the line is missing, with the program's last error line; if it is no
        object; and with the text of its ``error``.
        """
        lines = bytes(self._output).split(b"\n")
        try:
            answer = json.loads(lines[number])
        except (ValueError, LookupError, RecursionError):
            last = self._stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise GuestError(": ".join(["coverage: the guest gave no answer", *last])) from None
        if not isinstance(answer, dict):
            raise GuestError("coverage: the guest's answer is not a JSON object")
        if "error" in answer:
            raise GuestError(f"coverage: {answer['error']}")
        return answer

    def files(self, directory: Path) -> dict[str, Path]:
        """Copy the modules' files out of the guest, uncompressed, to MODULE.ko in ``directory``.

        Return their paths by module. Raises GuestError if a file cannot be read.
        """
        copies = {}
        for module in self._modules:
            name = self._guest.run(["modinfo", "-n", module], timeout=READ_SECONDS).check().stdout
            job = self._guest.popen(["cat", name.strip()])
            if self._guest.wait(job, READ_SECONDS):
                raise GuestError(f"coverage: cannot read the guest's {module}")
            copies[module] = directory / f"{module}.ko"
            copies[module].write_bytes(unpack_module(name.strip(), bytes(job.stdout)))
        return copies


def _coverage(answer: dict[str, Any]) -> Coverage:
    """Return the counts of one run from the guest's answer; a call while loading counts as one.

    Functions that ran while loading and are gone have no offset. Raises KeyError, TypeError,
    ValueError or ValidationError for an invalid answer.
    """
    loading: dict[str, set[str]] = defaultdict(set)
    for name, module in answer["loading"]:
        loading[module].add(name)
    modules = {}
    for name, about in answer["modules"].items():
        rest = loading[name] - {function for function, _, _ in about["functions"]}
        functions = [
            CoveredFunction(name=function, offset=offset, calls=calls + (function in loading[name]))
            for function, offset, calls in about["functions"]
        ]
        functions += [
            CoveredFunction(name=function, offset=None, calls=1) for function in sorted(rest)
        ]
        modules[name] = CoveredModule(directory=about["directory"], functions=functions)
    kernel = CoveredKernel(runs=1, missed=answer["missed"], modules=modules)
    return Coverage(mlx5emu_coverage=1, kernels={answer["release"]: kernel})
