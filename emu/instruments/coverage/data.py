"""Stored coverage: a JSON file with the number of calls of each function of some modules.

Counts are kept by kernel release and module, so runs and kernels can be merged. The offset in the
module's ``.text`` identifies a function, as names are not unique and load addresses change.
Functions in memory that is freed after loading (``__init``) have no offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from emu.host.user_error import UserError
from emu.host.userfiles import read_infile, write_outfile
from emu.model_words import first_in_words

VERSION: Final = 1
MAX_BYTES = 256 << 20

_Name = Annotated[str, Field(max_length=512, pattern=r"^[\x21-\x7e]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CoveredFunction(_Strict):
    """A function of a module; ``offset`` is in its ``.text``, None for freed init code."""

    name: _Name
    offset: int | None
    calls: NonNegativeInt


class Blocks(_Strict):
    """Basic blocks of a module's ``.text``: their total, and the offsets of those that ran."""

    total: NonNegativeInt
    ran: list[NonNegativeInt] = Field(max_length=2_000_000)


class CoveredModule(_Strict):
    """A module: its directory in the kernel's source, its functions, its blocks if counted."""

    directory: str = Field(max_length=512, pattern=r"^[\w./+-]*$")
    functions: list[CoveredFunction] = Field(max_length=200_000)
    blocks: Blocks | None = None

    @property
    def ran(self) -> int:
        """Number of functions that were called."""
        return sum(function.calls > 0 for function in self.functions)


class CoveredKernel(_Strict):
    """A kernel: its modules, the number of runs, the number of missed calls."""

    runs: NonNegativeInt
    missed: NonNegativeInt
    modules: dict[_Name, CoveredModule] = Field(max_length=1000)


class Coverage(_Strict):
    """Content of a coverage file: kernels by release."""

    mlx5emu_coverage: Literal[1]
    kernels: dict[_Name, CoveredKernel] = Field(max_length=100)


def load(path: Path) -> Coverage:
    """Return the content of a coverage file.

    Raises UserError for other content or more than 256 MiB, and OSError.
    """
    try:
        return Coverage.model_validate_json(read_infile(path, MAX_BYTES))
    except ValidationError as error:
        raise UserError(f"{path} is not a coverage file: {first_in_words(error)}") from None


def save(path: Path, coverage: Coverage) -> None:
    """Write a coverage file. Raises OSError."""
    write_outfile(path, coverage.model_dump_json() + "\n")


def merge(parts: Iterable[Coverage]) -> Coverage:
    """Return the sum of all parts; empty for none.

    Runs, missed calls and calls of the same function of the same kernel release add up. Blocks that
    ran are united.
    """
    kernels: dict[str, CoveredKernel] = {}
    for part in parts:
        for release, kernel in part.kernels.items():
            known = kernels.get(release)
            kernels[release] = kernel if known is None else _together(known, kernel)
    return Coverage(mlx5emu_coverage=VERSION, kernels=kernels)


def _together(one: CoveredKernel, other: CoveredKernel) -> CoveredKernel:
    """Return one kernel's coverage from two parts; modules of both are added up."""
    modules = dict(one.modules)
    for name, module in other.modules.items():
        modules[name] = _sum(modules[name], module) if name in modules else module
    return CoveredKernel(
        runs=one.runs + other.runs, missed=one.missed + other.missed, modules=modules
    )


def _sum(one: CoveredModule, other: CoveredModule) -> CoveredModule:
    """Return one module's coverage: calls by name and offset add up.

    Sorted by offset, init code last.
    """
    calls: dict[tuple[str, int | None], int] = {}
    for function in (*one.functions, *other.functions):
        key = function.name, function.offset
        calls[key] = calls.get(key, 0) + function.calls
    functions = [
        CoveredFunction(name=name, offset=offset, calls=number)
        for (name, offset), number in sorted(
            calls.items(), key=lambda item: (item[0][1] is None, item[0][1] or 0, item[0][0])
        )
    ]
    blocks = _blocks(one.blocks, other.blocks)
    return CoveredModule(
        directory=one.directory or other.directory, functions=functions, blocks=blocks
    )


def _blocks(one: Blocks | None, other: Blocks | None) -> Blocks | None:
    """Return the union of the blocks that ran; the other one if one is None, None if both are."""
    if one is None or other is None:
        return one or other
    return Blocks(total=max(one.total, other.total), ran=sorted({*one.ran, *other.ran}))
