"""Coverage reports: rows of a table, plain values for JSON, lcov's format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from emu.instruments.coverage.data import Coverage, CoveredFunction, CoveredKernel, CoveredModule
from emu.instruments.coverage.source import KernelTree

ALL_KERNELS = "all kernels"


LOST = "a function called only then counts as not run"
"""Consequence of calls that the tracer lost."""


def lost(kernel: CoveredKernel) -> str:
    """Return a note about a kernel's lost calls; ``missed`` > 0."""
    return f"{kernel.missed} calls were lost by the tracer: {LOST}"


@dataclass(frozen=True, slots=True)
class CoveredShare:
    """Number of functions that ran, out of a total."""

    ran: int
    total: int

    @property
    def percent(self) -> float:
        """Percentage of functions that ran."""
        return 100 * self.ran / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.ran:,} of {self.total:,}, {self.percent:.1f} %"


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Functions counted together: a module's, or those of one source directory.

    ``shares`` is by kernel; kernels without these functions are missing. With several kernels,
    :data:`ALL_KERNELS` counts each function once, by name.
    """

    module: str
    directory: str
    shares: dict[str, CoveredShare]


def rows(coverage: Coverage, tree: KernelTree | None) -> list[CoverageRow]:
    """Return the table: a row for each module, and the total last if it has several rows.

    With a source tree, a row for each module and source directory instead. Shares are by kernel.
    """
    groups: dict[tuple[str, str], dict[str, list[CoveredFunction]]] = defaultdict(dict)
    for release, kernel in coverage.kernels.items():
        for name, module in kernel.modules.items():
            for directory, functions in _by_directory(module, tree).items():
                groups[name, directory][release] = functions
    table = [
        CoverageRow(*key, _shares([in_directory])) for key, in_directory in sorted(groups.items())
    ]
    parts = [in_directory for _, in_directory in sorted(groups.items())]
    return [*table, CoverageRow("all", "", _shares(parts))] if len(parts) > 1 else table


def _by_directory(
    module: CoveredModule, tree: KernelTree | None
) -> dict[str, list[CoveredFunction]]:
    """Return a module's functions by source directory; all under the module's without a tree."""
    if tree is None:
        return {module.directory: list(module.functions)}
    groups: dict[str, list[CoveredFunction]] = defaultdict(list)
    for function, place in tree.places(module.directory, module.functions).items():
        groups[place.directory or module.directory].append(function)
    return groups


def _shares(parts: list[dict[str, list[CoveredFunction]]]) -> dict[str, CoveredShare]:
    """Return the shares of functions that ran, by kernel, summed over the parts.

    With several kernels, ALL_KERNELS counts each name of a part once, as run if it ran in any.
    """
    shares: dict[str, CoveredShare] = {}
    for release in sorted({release for part in parts for release in part}):
        functions = [function for part in parts for function in part.get(release, ())]
        shares[release] = CoveredShare(sum(one.calls > 0 for one in functions), len(functions))
    if len(shares) > 1:
        ran: dict[tuple[int, str], bool] = {}
        for number, part in enumerate(parts):
            for one in (one for functions in part.values() for one in functions):
                ran[number, one.name] = ran.get((number, one.name), False) or one.calls > 0
        shares[ALL_KERNELS] = CoveredShare(sum(ran.values()), len(ran))
    return shares


def summary(coverage: Coverage, tree: KernelTree | None) -> dict[str, object]:
    """Return runs, missed calls and the table of :func:`rows` as plain values for JSON."""
    return {
        "runs": {release: kernel.runs for release, kernel in coverage.kernels.items()},
        "missed": {release: kernel.missed for release, kernel in coverage.kernels.items()},
        "rows": [
            {
                "module": row.module,
                "directory": row.directory,
                "kernels": {
                    name: {"ran": share.ran, "total": share.total}
                    for name, share in row.shares.items()
                },
            }
            for row in rows(coverage, tree)
        ],
    }


def lcov(coverage: Coverage, tree: KernelTree) -> Iterator[str]:
    """Yield the lines of a tracefile (geninfo(1)), without newlines.

    Lists functions and the line of each. Each kernel, module and source file has one record; the
    kernel is the test's name. Functions without a known line (made by a macro) are left out.
    """
    for release, kernel in sorted(coverage.kernels.items()):
        test = "".join(letter if letter.isalnum() else "_" for letter in release)
        for _, module in sorted(kernel.modules.items()):
            files: dict[str, list[tuple[int, CoveredFunction]]] = defaultdict(list)
            for function, place in tree.places(module.directory, module.functions).items():
                if place.line:
                    files[place.file].append((place.line, function))
            for file, functions in sorted(files.items()):
                yield from _record(test, str(tree.root / file), functions)


def _record(test: str, path: str, functions: list[tuple[int, CoveredFunction]]) -> Iterator[str]:
    """Yield one record; calls of functions with the same line and name add up."""
    calls: dict[tuple[int, str], int] = defaultdict(int)
    lines: dict[int, int] = defaultdict(int)
    for line, function in functions:
        calls[line, function.name] += function.calls
        lines[line] += function.calls
    yield f"TN:{test}"
    yield f"SF:{path}"
    for line, name in sorted(calls):
        yield f"FN:{line},{name}"
    for (_, name), number in sorted(calls.items()):
        yield f"FNDA:{number},{name}"
    yield f"FNF:{len(calls)}"
    yield f"FNH:{sum(number > 0 for number in calls.values())}"
    for line, number in sorted(lines.items()):
        yield f"DA:{line},{number}"
    yield f"LF:{len(lines)}"
    yield f"LH:{sum(number > 0 for number in lines.values())}"
    yield "end_of_record"
