"""Renders coverage as one self-contained HTML page: the table, and each module's functions."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from emu.host.counted import counted
from emu.instruments.coverage.data import Coverage, CoveredModule
from emu.instruments.coverage.report import lost, rows
from emu.instruments.coverage.source import KernelTree

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; color: #222 }
table { border-collapse: collapse; margin-bottom: 1em }
th, td { padding: .15em .8em; border-bottom: 1px solid #ddd; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
td.bar { width: 12em } td.bar div { background: #4a8; height: .8em }
tr.never { color: #a33 } summary { cursor: pointer; font-weight: 600 }
"""


def page(coverage: Coverage, tree: KernelTree | None) -> Iterator[str]:
    """Yield the HTML page in chunks; without a source tree the functions have no lines."""
    yield '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Coverage</title>'
    yield f"<style>{_STYLE}</style>\n<h1>Functions that ran</h1>\n"
    yield "<table><tr><th>module<th>directory<th>kernel<th>ran<th>of<th>percent<th></tr>\n"
    for row in rows(coverage, tree):
        for name, share in row.shares.items():
            yield (
                f"<tr><td>{escape(row.module)}<td>{escape(row.directory)}<td>{escape(name)}"
                f'<td class="number">{share.ran}<td class="number">{share.total}'
                f'<td class="number">{share.percent:.1f}'
                f'<td class="bar"><div style="width:{share.percent:.1f}%"></div></tr>\n'
            )
    yield "</table>\n"
    for release, kernel in sorted(coverage.kernels.items()):
        yield f"<h2>{escape(release)}</h2>\n<p>{counted(kernel.runs, 'run')}"
        yield f"; {lost(kernel)}</p>\n" if kernel.missed else "</p>\n"
        for name, module in sorted(kernel.modules.items()):
            yield from _functions(name, module, tree)


def _functions(name: str, module: CoveredModule, tree: KernelTree | None) -> Iterator[str]:
    """Yield a module's table of functions with calls, and source lines if a tree is given."""
    places = tree.places(module.directory, module.functions) if tree is not None else {}
    yield f"<details><summary>{escape(name)}: {module.ran} of {len(module.functions)}</summary>\n"
    yield "<table><tr><th>function<th>source<th>calls</tr>\n"
    for function in module.functions:
        place = places.get(function)
        where = str(place) if place is not None else ""
        never = "" if function.calls else ' class="never"'
        yield f"<tr{never}><td>{escape(function.name)}<td>{escape(where)}"
        yield f'<td class="number">{function.calls}</tr>\n'
    yield "</table></details>\n"
