"""Reads a campaign's matrix: kernels, devices, workloads, plans, seeds; a run has one of each.

``[[exclude]]`` removes combinations by name patterns. Plans are read here, so descriptions need no
files and mistakes are reported before a guest boots.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from emu.device.faults.parser import dump
from emu.device.faults.plan import LOADING, Plan, When
from emu.guests.options import GuestOptions, OptionError, option_named
from emu.guests.options.kinds import Directory, File, Files, Kernel
from emu.guests.options.tables import OptionTable
from emu.host import shipped
from emu.host.toml_file import TomlFile
from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, Expected, GuestPart
from emu.instruments.campaign.expected import expected
from emu.instruments.campaign.matrix_tables import MAX_RUNS, TABLES, Matrix, PlanTable
from emu.model_words import given_text
from emu.near import near
from emu.server.service.devicespec import parse_all as parse_devices
from emu.server.service.plan_files import read_plan
from emu.toml_lines import Place

Mistake = tuple[Place, object]
"""Place in the file, and reason."""
NO_PLAN = "none"


class Campaign:
    """A campaign's name and its runs, in the order of the matrix."""

    def __init__(self, name: str, runs: tuple[Description, ...]) -> None:
        self.name = name
        self.runs = runs


def read(path: Path) -> Campaign:
    """Return the campaign of a matrix file: all combinations that no ``[[exclude]]`` matches.

    Plans are read here. Raises UserError with file, line and reason for each mistake, for more than
    100,000 runs, and if no run is left. Raises OSError.
    """
    file = TomlFile(path, Matrix, TABLES)
    matrix = file.content
    mistakes = [*file.mistakes, *_of_names(matrix), *_of_parts(matrix, path.resolve().parent)]
    if not matrix.workload and not any(place[:1] == ("workload",) for place, _ in mistakes):
        mistakes.append(((), "no [[workload]]: at least 1 is needed, with name and run"))
    plans = _plans(file, mistakes)
    if mistakes:
        raise file.errors_at(mistakes)
    axes = (matrix.kernel, matrix.device, matrix.workload, plans, matrix.seeds)
    if prod(map(len, axes)) > MAX_RUNS:
        raise file.refusal(f"{path}: more than {MAX_RUNS} runs")
    runs = [
        run
        for run in _runs(matrix, plans, path.resolve().parent)
        if not any(table.matches(run) for table in matrix.exclude)
    ]
    if not runs:
        raise file.refusal(f"{path}: no run is left: [[exclude]] matches all runs")
    if mistakes := [*_of_kernels(matrix, runs)]:
        raise file.errors_at(mistakes)
    return Campaign(matrix.name or path.stem, tuple(runs))


def _of_names(matrix: Matrix) -> Iterator[Mistake]:
    """Yield a mistake for each name that two tables of a kind have."""
    for key in ("kernel", "device", "workload"):
        names = [one.name for one in getattr(matrix, key)]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield (key, number), f"{name!r} is the name of another {key}"


def _of_parts(matrix: Matrix, base: Path) -> Iterator[Mistake]:
    """Yield a mistake for invalid guest options, invalid or no devices, missing kernels.

    A mistake of ``[guest]``, which all parts inherit, is yielded once.
    """
    parts: dict[str, tuple[OptionTable, ...]] = {
        "kernel": matrix.kernel, "device": matrix.device, "workload": matrix.workload,
    }  # fmt: skip
    inherited: set[Place] = set()
    functions = max((device.value("devices") for device in matrix.device), key=len)
    for key, tables in parts.items():
        for number, part in enumerate(tables):
            try:
                _check_options({"devices": functions, **matrix.guest.given(), **part.given()})
            except OptionError as error:
                word = option_named(error.name).word
                is_parts = error.name in part.given()
                place: Place = (key, number, word) if is_parts else ("guest", word)
                why: UserError = error
            except UserError as error:
                place, why = ("guest",), error
            else:
                continue
            if place not in inherited:
                yield place, why
            if place[0] == "guest":
                inherited.add(place)
    for number, device in enumerate(matrix.device):
        devices = device.value("devices")
        try:
            parse_devices(devices)
        except (UserError, ValueError) as error:
            yield ("device", number, "devices"), error
        if not devices:
            yield ("device", number, "devices"), "devices: empty, at least 1 is needed"
    for number, kernel in enumerate(matrix.kernel):
        for word in _placed(kernel, base).get("kernel", ()):
            if not word.startswith("debian:") and not os.path.exists(word):
                yield ("kernel", number, "kernel"), f"no kernel {word}"


def _of_kernels(matrix: Matrix, runs: list[Description]) -> Iterator[Mistake]:
    """Yield a mistake for each kernel that is refused with the functions of a run's device."""
    numbers = {kernel.name: number for number, kernel in enumerate(matrix.kernel)}
    for name, device in dict.fromkeys((run.kernel, run.device) for run in runs):
        kernel = matrix.kernel[numbers[name]]
        (devices,) = (one.value("devices") for one in matrix.device if one.name == device)
        try:
            _check_options({"devices": devices, **matrix.guest.given(), **kernel.given()})
        except OptionError as error:
            place = ("kernel", numbers[name], option_named(error.name).word)
            yield place, f"{error} (device {device!r})"


def _check_options(said: Mapping[str, Any]) -> None:
    """Raise LabError for invalid options; paths are checked where the run executes, not here."""
    GuestOptions(**{
        name: value for name, value in said.items()
        if not isinstance(option_named(name).kind, Directory | File | Files | Kernel)
    })  # fmt: skip


class _Planned(NamedTuple):
    """A plan of the matrix with its start and expectation; ``plan`` is None without faults."""

    plan: Plan | None
    begins: When
    expected: Expected | None


def _plans(file: TomlFile[Matrix], mistakes: list[Mistake]) -> dict[str, _Planned]:
    """Return the plans by their names, with start and expectation.

    A mistake is appended for a pattern without files, a duplicate name, and an invalid plan or
    expectation.
    """
    plans: dict[str, _Planned] = {}
    base = file.path.resolve().parent
    for number, table in enumerate(file.content.plan):
        place = ("plan", number)
        paths: list[Path | None] = [None]
        if table.files is not None:
            paths = [*_matching_files(base, table.files)]
            if not paths:
                word = table.files
                names = [f"@{name}" for name in shipped.examples("plan")]
                close = near(word, names) if word.startswith("@") else ""
                mistakes.append(((*place, "files"), f"files: no plan {given_text(word)}{close}"))
            if table.name and len(paths) > 1:
                mistakes.append(((*place, "name"), f"{len(paths)} plans have their own names"))
                continue
        for path in paths:
            name = table.name or (path.stem.lower() if path is not None else NO_PLAN)
            if name in plans:
                if any(about[:2] == place for about, _ in mistakes):
                    continue  # a key of it is wrong, which may have been its name or its file
                mistakes.append((place, f"{name!r} is the name of another plan"))
                continue
            try:
                plans[name] = _planned(path, table)
            except UserError as error:
                mistakes.append(((*place, "files"), error))
            except (ValueError, OSError) as error:
                mistakes.append((place, f"{path}: {getattr(error, 'strerror', '') or error}"))
    return plans


def _matching_files(base: Path, pattern: str) -> list[Path]:
    """Return the files whose names match a path's last part, sorted; none for a useless path.

    ``@NAME``, also a pattern, means plans of the library, unless a file has that name.
    """
    if pattern.startswith("@") and not os.path.lexists(base / pattern):
        plans = shipped.examples("plan")
        return [path for name, path in plans.items() if fnmatchcase(name, pattern[1:])]
    try:
        return sorted((base / pattern).parent.glob(Path(pattern).name))
    except (ValueError, OSError):  # no name, or one that no file can have
        return []


def _planned(path: Path | None, table: PlanTable) -> _Planned:
    """Return the plan in a file, or none for None, with a table's start and expectation.

    Raises UserError for an invalid plan, ValueError for an invalid expectation, and OSError.
    """
    plan = read_plan(path) if path is not None else None
    begins = table.when or (LOADING if plan is None else plan.begins)
    return _Planned(plan, begins, expected(plan, table.expect))


def _runs(matrix: Matrix, plans: dict[str, _Planned], base: Path) -> Iterator[Description]:
    """Yield a description for each combination of kernel, device, workload, plan and seed.

    The plan's text has the combination's seed, without expectation and start.
    """
    texts = {
        (name, seed): dump(plan.model_copy(update={"seed": seed, "expect": None, "when": None}))
        if plan
        else ""
        for name, (plan, _, _) in plans.items()
        for seed in matrix.seeds
    }
    for kernel, device, workload, plan, seed in itertools.product(
        matrix.kernel, matrix.device, matrix.workload, plans, matrix.seeds
    ):
        yield Description(
            name=f"{kernel.name}.{device.name}.{workload.name}.{plan}.{seed}",
            kernel=kernel.name,
            device=device.name,
            workload=workload.name,
            plan_name=plan,
            seed=seed,
            command=workload.run,
            timeout=workload.timeout,
            repeat=workload.repeat,
            plan=texts[plan, seed],
            when=plans[plan].begins,
            directory=str(base),
            expected=plans[plan].expected,
            guest=GuestPart.model_validate(
                {
                    key: value
                    for part in (matrix.guest, kernel, device, workload)
                    for key, value in _placed(part, base).items()
                }
            ),
        )


def _placed(part: OptionTable, base: Path) -> dict[str, Any]:
    """Return the options of a table by word, with absolute paths."""
    declared = {option_named(name): value for name, value in part.given().items()}
    return {one.word: one.kind.placed(value, base) for one, value in declared.items()}
