"""Who may import whom: the structures know nobody, the core knows no operating system."""

import ast
import functools
from pathlib import Path

import pytest

import emu

ROOT = Path(emu.__file__).parents[1]
PACKAGES = ("layouts", "emu", "firmware_cmds")
EDGE = tuple(
    f"emu.{name}"
    for name in (
        "vfio", "net", "lab", "coverage", "fuzz", "traceview", "outcome", "service", "cli",
        "control", "host", "campaign", "testing", "pytest_plugin", "__main__",
    )
)  # fmt: skip
LOOKERS_ON = ("emu.faults", "emu.trace")
"""The core knows who looks on by protocols of its own: emu.device.points and emu.device.tracer."""
OPERATING_SYSTEM = (
    "asyncio", "concurrent", "ctypes", "fcntl", "mmap", "multiprocessing", "os", "select",
    "selectors", "signal", "socket", "subprocess", "tempfile", "threading", "time",
)  # fmt: skip


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def forbidden(module):
    """What a module must not import, and why."""
    if within(module, EDGE):
        assembles = within(module, ("emu.service", "emu.cli.commands"))
        return () if assembles else ("firmware_cmds",), "only a service puts the commands in"
    if within(module, ["layouts"]):
        return ("emu", "firmware_cmds", *OPERATING_SYSTEM), "a structure imports nothing of ours"
    commands = () if within(module, ["firmware_cmds"]) else ("firmware_cmds",)
    lookers_on = () if within(module, LOOKERS_ON) else LOOKERS_ON
    return (
        (*commands, *lookers_on, *EDGE, *OPERATING_SYSTEM),
        "the core does no I/O and knows neither an edge nor who looks on",
    )


@functools.cache
def imported(source):
    """Dotted names of all that a source imports, in functions and for type checking too."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return names


def breaches(module, source):
    names, why = forbidden(module)
    return [f"{module} imports {name}: {why}" for name in imported(source) if within(name, names)]


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path.read_text()


def test_everyone_keeps_to_the_import_rule():
    found = [breach for module, source in sources() for breach in breaches(module, source)]
    assert not found, "\n".join(["see ARCHITECTURE.md", *found])


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("layouts.eq", "from emu.device.hca import Hca", 1),
        ("layouts.eq", "import struct\nfrom layouts.prm import Prm", 0),
        ("emu.device.hca", "import time\nfrom os import path", 2),
        ("emu.device.hca", "def f():\n  import socket", 1),
        ("emu.objects.send_queue", "from emu.vfio.loop import Loop\nfrom emu import service", 2),
        ("emu.cmdif.interface", "from firmware_cmds import TABLE", 1),
        (
            "firmware_cmds.qp",
            "from emu.engine.qp import lifecycle\nfrom firmware_cmds.hca import x",
            0,
        ),
        ("firmware_cmds.qp", "from emu.net.ib.local import LocalFabric", 1),
        ("emu.vfio.loop", "import select\nfrom firmware_cmds import TABLE", 1),
        ("emu.service", "import signal\nfrom firmware_cmds import TABLE", 0),
        ("emu.timeline", "import timeit", 0),
        ("emu.device.hca", "if TYPE_CHECKING:\n  from emu.trace import Recorder", 1),
        ("emu.device.hca", "from emu.function.function import Tracer", 0),
        ("emu.engine.events.eq", "from emu.faults.injector import Injector", 1),
        ("emu.engine.events.eq", "from emu.device.points import FaultPoint", 0),
        ("emu.faults.events", "from emu.trace.decode import event_layout", 0),
    ],
)
def test_rule_itself(module, source, count):
    assert len(breaches(module, source)) == count


# The order inside the core, from the bottom to the top. A module imports what stands in its own
# line or in one above it; imports for types count as well.
CORE = (
    "layouts", "emu.errors", "emu.turns", "emu.ports", "emu.pci", "emu.objects", "emu.models",
    "emu.port", "emu.device", "emu.engine.events", "emu.engine.mr", "emu.engine.wqe",
    "emu.engine.qp", "emu.engine.ud", "emu.engine.rc", "emu.engine.rc.packets", "emu.engine.eth",
    "emu.engine", "emu.cmdif", "emu.function", "emu.trace", "emu.faults", "firmware_cmds",
)  # fmt: skip
# The same for the lab, with which nothing of the core has to do.
LAB = tuple(
    f"emu.lab{name}"
    for name in (
        ".errors", ".workdir", ".cache", ".archive", ".options", ".timeline", ".channel",
        ".inside", ".kernel", ".image", ".machine", ".guest", ".named", ".conformance", "",
    )
)  # fmt: skip
ORDER = (*CORE, *LAB)
MOST_IN_A_CIRCLE = 3


def place(name):
    """Where a module stands in the order; None for what has no place in it."""
    found = [number for number, package in enumerate(ORDER) if within(name, [package])]
    return max(found, key=lambda number: len(ORDER[number]), default=None)


def against_the_order(module, source):
    own = place(module)
    if own is None:
        return []
    return [
        f"{module} imports {name}, which stands above it"
        for name in imported(source)
        if (other := place(name)) is not None and other > own
    ]


def test_core_and_lab_have_an_order():
    found = [breach for module, source in sources() for breach in against_the_order(module, source)]
    assert not found, "\n".join(["see ARCHITECTURE.md", *found])


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("emu.objects.qp", "if TYPE_CHECKING:\n  from emu.engine.rc import responder", 1),
        ("emu.engine.rc.responder", "from emu.objects import Qp", 0),
        ("emu.engine.events.cq", "from emu.engine.lifecycle import run", 1),
        ("emu.engine.lifecycle", "from emu.engine.events import cq", 0),
        ("emu.net.ib.local", "from emu.engine.ud import delivery", 0),
        ("emu.lab.kernel.choice", "from emu.lab.image import recipe", 1),
        ("emu.lab.image.build", "from emu.lab.kernel.modules import load_order", 0),
        ("emu.lab.errors", "from emu.lab import Guest", 1),
        ("emu.lab.guest.guest", "from emu.host import paths", 0),
    ],
)
def test_order_itself(module, source, count):
    assert len(against_the_order(module, source)) == count


def imports():
    """Every module, and the modules of ours that it imports."""
    known = dict(sources())

    def resolve(name):
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    return {
        module: {found for name in imported(source) if (found := resolve(name))} - {module}
        for module, source in known.items()
    }


def package_of(module):
    """The folder that a module lies in; a module beside the packages stands for itself."""
    folder = ROOT.joinpath(*module.split("."))
    if folder.is_dir():
        return module
    package = module.rpartition(".")[0]
    return module if package in ("emu", "emu.lab") else package


def circles(graph):
    """Sets of nodes that reach each other (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_few_modules_import_each_other():
    assert not [circle for circle in circles(imports()) if len(circle) > MOST_IN_A_CIRCLE]


def test_no_packages_import_each_other():
    graph = {}
    for module, others in imports().items():
        own = package_of(module)
        graph.setdefault(own, set()).update({package_of(other) for other in others} - {own})
    assert not circles(graph)


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert circles(graph) == [["a", "b", "c"]]


def test_the_map_shows_every_folder():
    """ARCHITECTURE.md's map: a reader finds each folder with sources by its name."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    shown = text.partition("```")[2].partition("```")[0]
    packages = [ROOT / name for name in ("emu", "layouts", "firmware_cmds")]
    found = {path.parent for package in packages for path in package.rglob("*.py")}
    missing = [f"{path.relative_to(ROOT)}" for path in found if f"{path.name}/" not in shown]
    assert not missing
