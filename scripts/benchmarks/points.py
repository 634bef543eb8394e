"""Cost of trace points and fault points when tracing is off and no plan is loaded.

The device core is copied twice, as if the points did not exist: once without the checks for a
tracer, once without those for faults. Processes with the original and with each copy do the same
work alternately: writes of 64 bytes, many to a doorbell. Prints a table, and JSON with --json.
"""

from __future__ import annotations

import ast
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from figures import Row, Section, ratio_at_most
from tables import json_option, show

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("emu", "layouts", "firmware_cmds", "tests", "scripts")
POINTS = {"trace points, not traced": "tracer", "fault points, no plan": "faults"}
WRITES = 640
POLLS = 40
MAX_RATIO = 1.01

WORKER = """
import sys

import rig
from emu.server.net.ib.local import LocalFabric

pair = rig.Pair(LocalFabric, 4096)
post = lambda: pair.qp.write(pair.remote, pair.source.sge(0, 64), ring=False)
for line in sys.stdin:
    takes = [rig.doorbell_to_cqe(pair.qp, post, 64) for _ in range(int(line) // 64)]
    print(sum(takes) / len(takes), flush=True)
"""


class Without(ast.NodeTransformer):
    """Removes each check of an attribute, together with the code that runs if it is set."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        self.found = 0

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        test = node.test.values[0] if isinstance(node.test, ast.BoolOp) else node.test
        if self._is_it(test):
            return node.orelse or ast.Pass()
        if isinstance(test, ast.Compare) and self._is_it(test.left):
            return node.body if isinstance(test.ops[0], ast.Is) else node.orelse or ast.Pass()
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return node.orelse if self._is_it(node.test) else node

    def _is_it(self, test: ast.AST) -> bool:
        is_it = isinstance(test, ast.Attribute) and test.attr == self._attribute
        self.found += is_it
        return is_it


def copy_without(attribute: str, target: Path) -> None:
    """Copy the sources without the checks of ``attribute`` in the core; "" keeps all checks.

    The copy that keeps all checks is parsed and written like the others.
    """
    for package in PACKAGES:
        shutil.copytree(ROOT / package, target / package)  # without Python's compiled files
    without = Without(attribute)
    for source in [*(target / "emu/device/engine").rglob("*.py"), *(target / "emu").glob("*.py")]:
        tree = without.visit(ast.parse(source.read_text()))
        source.write_text(ast.unparse(ast.fix_missing_locations(tree)))
    if attribute and not without.found:
        raise click.ClickException(f"no code in the core tests {attribute}")


def one_round(trees: dict[str, Path], turns: int) -> dict[str, float]:
    """Return the median of each tree's samples, in microseconds per write.

    Each tree runs in a new process.
    """
    workers = {name: start(tree) for name, tree in trees.items()}
    taken: dict[str, list[float]] = {name: [] for name in trees}
    for turn in range(turns):
        for name in list(trees) if turn % 2 else reversed(trees):
            taken[name].append(ask(workers[name]))
    for worker in workers.values():
        worker.communicate()
    return {name: statistics.median(values) for name, values in taken.items()}


def start(tree: Path) -> subprocess.Popen[str]:
    """Start a process that uses the sources of a tree."""
    path = os.pathsep.join((str(tree), str(tree / "scripts/benchmarks")))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree,
    )  # fmt: skip


def ask(worker: subprocess.Popen[str]) -> float:
    """Let a process take one sample; return its result."""
    if worker.stdin is None or worker.stdout is None:
        raise click.ClickException("a process without pipes")
    worker.stdin.write(f"{WRITES}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def measure(count: int, turns: int) -> Section:
    """Compare the original's time with that of each copy."""
    with tempfile.TemporaryDirectory() as directory:
        trees = {name: Path(directory, str(number)) for number, name in enumerate(["", *POINTS])}
        for name, tree in trees.items():
            copy_without(POINTS.get(name, ""), tree)
        rounds = [one_round(trees, turns) for _ in range(count)]
    goal = ratio_at_most(MAX_RATIO)
    whole = [taken[""] for taken in rounds]
    rows = [Row(name, "us", whole, [taken[name] for taken in rounds], goal) for name in POINTS]
    title = "Points that nobody uses, in process: a write of 64 B"
    return Section("points", title, rows, "with them", "never built")


@click.command(help=__doc__)
@click.option("--count", default=20, show_default=True, help="Rounds, with new processes each.")
@click.option("--turns", default=POLLS, show_default=True, help="Turns of each process in a round.")
@json_option
def main(count: int, turns: int, as_json: bool) -> None:
    """Measure."""
    show([measure(count, turns)], as_json=as_json)


if __name__ == "__main__":
    main()
