"""Coverage by KCOV, for kernels built with it: functions and blocks that tasks ran.

A block begins with a call of ``__sanitizer_cov_trace_pc``; KCOV records the return address of that
call. A function ran if its first block ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emu.guests.errors import GuestError, LabError
from emu.guests.workdir import work_directory
from emu.instruments.coverage import inside
from emu.instruments.coverage.data import (
    VERSION,
    Blocks,
    Coverage,
    CoveredFunction,
    CoveredKernel,
    CoveredModule,
)
from emu.instruments.coverage.objdump import read_listing
from emu.instruments.coverage.session import CoverageSession

_LABEL = re.compile(r"([0-9a-f]+) <(.+)>:$")
_CALL = re.compile(r"\s+([0-9a-f]+): R_X86_64_\w+\s+__sanitizer_cov_trace_pc\b")
_RELOCATED_BYTES = 4  # size of the call's operand; the return address follows
_MAX_PLACES = 4_000_000


@dataclass(frozen=True)
class Sites:
    """Offsets in a module's ``.text``, in order: of its functions and of all blocks."""

    functions: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, offset, and offset of the first block; functions without a block are left out."""

    blocks: list[int] = field(default_factory=list)


def sites(module: Path) -> Sites:
    """Return the functions and blocks of a module file.

    Raises LabError without objdump, if objdump fails, and for a module without KCOV calls.
    """
    result = read_listing(module, sites_of, "-r", purpose="coverage by KCOV")
    if not result.blocks:
        raise LabError(f"{module.name} is not built for KCOV: set CONFIG_KCOV_INSTRUMENT_ALL")
    return result


def sites_of(listing: Iterable[str]) -> Sites:
    """Return the functions and blocks in objdump's listing with relocations.

    Empty for no KCOV calls.
    """
    result = Sites()
    name, offset = "", None
    for line in listing:
        if label := _LABEL.match(line):
            name, offset = label[2], int(label[1], 16)
        elif call := _CALL.match(line):
            block = int(call[1], 16) + _RELOCATED_BYTES
            result.blocks.append(block)
            if offset is not None:
                result.functions.append((name, offset, block))
                offset = None
    return result


class KcovSession(CoverageSession):
    """Counts by KCOV: the loading of modules, and the tasks of the host's commands."""

    def _program(self) -> str:
        return inside.program("ptrace", "kcov", "tasks")

    def finish(self) -> Coverage:
        """Stop counting; return functions and blocks that ran.

        Copies the modules' files out of the guest. Raises GuestError if the guest gives no valid
        answer, LabError for the modules' files.
        """
        answer = self._end()
        with work_directory() as work:
            known = {name: sites(path) for name, path in self.files(work).items()}
        try:
            return coverage(answer, known)
        except (KeyError, TypeError, ValueError) as error:
            raise GuestError(f"coverage: invalid answer of the guest: {error}") from None


def coverage(answer: Mapping[str, Any], known: Mapping[str, Sites]) -> Coverage:
    """Return the counts of one run from the guest's answer, for the modules ``known``.

    ``missed`` is the number of full buffers and of tasks without a buffer. Raises KeyError,
    TypeError or ValueError for an invalid answer, or over 4 million addresses.
    """
    if len(answer["places"]) > _MAX_PLACES:
        raise ValueError(f"more than {_MAX_PLACES} addresses")
    places = {int(address): int(times) for address, times in answer["places"]}
    modules = {name: _module(answer["modules"][name], places, known[name]) for name in known}
    missed = int(answer["full"]) + int(answer["without"])
    kernel = CoveredKernel(runs=1, missed=missed, modules=modules)
    return Coverage(mlx5emu_coverage=VERSION, kernels={answer["release"]: kernel})


def _module(about: Mapping[str, Any], places: Mapping[int, int], known: Sites) -> CoveredModule:
    """Return a module's coverage; a function's calls are the count of its first block."""
    base = int(about["base"])
    functions = [
        CoveredFunction(name=name, offset=offset, calls=places.get(base + first, 0))
        for name, offset, first in known.functions
    ]
    ran = [block for block in known.blocks if base + block in places]
    blocks = Blocks(total=len(known.blocks), ran=ran)
    return CoveredModule(directory=about["directory"], functions=functions, blocks=blocks)
