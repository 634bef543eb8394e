"""Upper limits for the length of a message's path, so that no change makes it longer unseen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.pure import pure_only

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts" / "benchmarks"))

import moves
from moves import Counts

pure_only("the interpreter's calls and instructions are counted")

LIMITS = {
    "RDMA WRITE of 64 B": Counts(13, 19, 26, 1299),
    "the same as packets": Counts(19, 46, 77, 3541),
    "ALLOC_PD": Counts(10, 22, 27, 1152),
    "CREATE_MKEY of 16 pages": Counts(15, 39, 61, 2453),
    "UMR that maps 16 pages": Counts(13, 20, 38, 1974),
    "page fault and its RESUME": Counts(24, 77, 105, 4749),
}
"""Lengths now. A change that shortens a path lowers them here; the goals are in ``moves.py``."""

COUNTED_ON = (3, 11)
"""Python whose instructions are limited: each release compiles to others."""


@pytest.fixture(scope="module")
def counted():
    """Counts by path, of a process of its own: pytest rewrites the assertions in our code."""
    done = subprocess.run(
        [sys.executable, moves.__file__, "--counts"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
        text=True,
    )
    lines = (line.rpartition(": ") for line in done.stdout.splitlines())
    return {name: Counts(*map(int, numbers.split("; "))) for name, _, numbers in lines}


def test_every_path_is_limited(counted):
    assert LIMITS.keys() == counted.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_path_is_no_longer_than_its_limit(name, counted):
    limits = LIMITS[name]._asdict()
    if sys.version_info[:2] != COUNTED_ON:
        del limits["instructions"]
    counts = counted[name]._asdict()
    longer = {what: (counts[what], limit) for what, limit in limits.items() if counts[what] > limit}
    assert not longer, "scripts/benchmarks/moves.py --path shows the path"
