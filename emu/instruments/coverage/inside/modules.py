"""Loads the counted modules in the guest, and writes lines to the host.

A line is JSON: ``{"ready":true}`` once the functions are probed, then the counts, or
``{"error":"..."}`` instead of either.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

AUTOPROBE = Path("/sys/bus/pci/drivers_autoprobe")
PROBE_SCRIPT = "/run/mlx5emu/probe.sh"
"""Script that lets drivers probe the functions in bus order."""


class CoverageError(Exception):
    """The guest's kernel lacks a feature; the text names it."""


def symbols(modules: list[str]) -> dict[str, list[tuple[int, str]]]:
    """Return address and name of each module's symbols in /proc/kallsyms, data included.

    The list of a module that is not loaded is empty.
    """
    result: dict[str, list[tuple[int, str]]] = {module: [] for module in modules}
    for address, _, name, *rest in map(str.split, lines(Path("/proc/kallsyms"))):
        if rest and rest[0][1:-1] in result:
            result[rest[0][1:-1]].append((int(address, 16), name))
    return result


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file."""
    with path.open() as file:
        yield from file


def check_unloaded(modules: list[str]) -> None:
    """Raise CoverageError if one of the modules is loaded already.

    A built-in one does not count.
    """
    already = [name for name in modules if Path("/sys/module", name, "sections").exists()]
    if already:
        raise CoverageError(f"{already[0]} is already loaded")


def in_order(modules: list[str]) -> list[str]:
    """Return the modules in load order: dependencies first.

    Dependencies that are not among ``modules`` are left out. Raises CoverageError for a module that
    modprobe does not know, or that is built into the kernel.
    """
    order: list[str] = []
    for module in modules:
        done = run("modprobe", "--show-depends", module)
        check(done)
        for kind, path, *_ in map(str.split, done.stdout.splitlines()):
            if kind == "insmod":
                order.append(path.rpartition("/")[2].partition(".")[0].replace("-", "_"))
    built_in = [module for module in modules if module not in order]
    if built_in:
        raise CoverageError(f"{built_in[0]} is built into the kernel")
    return sorted(modules, key=order.index)


def run(
    *words: str, before: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return status, standard output and standard error as text.

    A failing status raises nothing. ``before`` is called in the child before exec.
    """
    return subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=before)


def check(done: subprocess.CompletedProcess[str]) -> None:
    """Raise CoverageError, with the first line of the program's complaint, if it failed."""
    if done.returncode:
        raise CoverageError(done.stderr.strip().partition("\n")[0])


def base(module: str) -> int:
    """Return the address of the module's ``.text``."""
    return int(Path("/sys/module", module, "sections/.text").read_text(), 16)


def directory(module: str) -> str:
    """Return the module's directory below ``/kernel/``, which equals its source directory.

    Return "" if modinfo fails.
    """
    done = run("modinfo", "-F", "filename", module)
    return done.stdout.strip().rpartition("/")[0].partition("/kernel/")[2]


def tell(**values: object) -> None:
    """Send a line to the host."""
    sys.stdout.write(json.dumps(values, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def wait_for_end() -> None:
    """Wait until the host closes standard input."""
    sys.stdin.read()
