"""Converts a corpus' blocks to coverage by function, as ``--coverage`` stores it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

from emu.host.user_error import UserError
from emu.instruments.coverage.data import (
    VERSION,
    Coverage,
    CoveredFunction,
    CoveredKernel,
    CoveredModule,
)
from emu.instruments.fuzz.schedule import Block


def covered(known: Coverage, release: str, hits: Mapping[Block, int]) -> Coverage:
    """Return coverage of the functions of ``known``, with calls from the runs of their blocks.

    A function's calls are the runs of its most reached block. A corpus has blocks but no functions.
    The start of each function is taken from a run of the same kernel with ``--coverage``. Raises
    UserError if ``known`` lacks this kernel.
    """
    kernel = known.kernels.get(release)
    if kernel is None:
        raise UserError(f"no coverage of {release}, which is needed for its functions")
    modules = {name: _module(name, module, hits) for name, module in kernel.modules.items()}
    kernel_coverage = CoveredKernel(runs=max(hits.values(), default=0), missed=0, modules=modules)
    return Coverage(mlx5emu_coverage=VERSION, kernels={release: kernel_coverage})


def _module(name: str, module: CoveredModule, hits: Mapping[Block, int]) -> CoveredModule:
    begins = sorted({one.offset for one in module.functions if one.offset is not None})
    counts: Counter[int] = Counter()
    for (where, offset), times in hits.items():
        at = bisect_right(begins, offset) - 1
        if where == name and at >= 0:
            counts[begins[at]] = max(counts[begins[at]], times)
    functions = [
        CoveredFunction(
            name=one.name, offset=one.offset, calls=0 if one.offset is None else counts[one.offset]
        )
        for one in module.functions
    ]
    return CoveredModule(directory=module.directory, functions=functions)
