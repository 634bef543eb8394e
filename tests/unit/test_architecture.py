"""Who may import whom: the structures know nobody, the core knows no operating system."""

import ast
from pathlib import Path

import pytest

import emu

ROOT = Path(emu.__file__).parents[1]
PACKAGES = ("layouts", "emu", "firmware_cmds")
EDGE = tuple(
    f"emu.{name}"
    for name in (
        "transport", "fabric", "guest", "commands", "service", "cli", "control", "listening",
        "manpage", "userfiles", "pytest_plugin", "__main__",
    )
)  # fmt: skip
LOOKERS_ON = ("emu.faults", "emu.trace")
"""The core knows who looks on by protocols of its own: emu.points and emu.tracer."""
OPERATING_SYSTEM = (
    "asyncio", "concurrent", "ctypes", "fcntl", "mmap", "multiprocessing", "os", "select",
    "selectors", "signal", "socket", "subprocess", "tempfile", "threading", "time",
)  # fmt: skip


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def forbidden(module):
    """What a module must not import, and why."""
    if within(module, EDGE):
        assembles = within(module, ("emu.service", "emu.commands"))
        return () if assembles else ("firmware_cmds",), "only a service puts the commands in"
    if within(module, ["layouts"]):
        return ("emu", "firmware_cmds", *OPERATING_SYSTEM), "a structure imports nothing of ours"
    commands = () if within(module, ["firmware_cmds"]) else ("firmware_cmds",)
    lookers_on = () if within(module, LOOKERS_ON) else LOOKERS_ON
    return (
        (*commands, *lookers_on, *EDGE, *OPERATING_SYSTEM),
        "the core does no I/O and knows neither an edge nor who looks on",
    )


def imported(source):
    """Dotted names of all that a source imports, in functions and for type checking too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


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
        ("layouts.eq", "from emu.hca import Hca", 1),
        ("layouts.eq", "import struct\nfrom layouts.prm import Prm", 0),
        ("emu.hca", "import time\nfrom os import path", 2),
        ("emu.hca", "def f():\n  import socket", 1),
        ("emu.engine.sq", "from emu.transport.loop import Loop\nfrom emu import service", 2),
        ("emu.cmdif", "from firmware_cmds import TABLE", 1),
        ("firmware_cmds.qp", "from emu.engine import sq\nfrom firmware_cmds.hca import x", 0),
        ("firmware_cmds.qp", "from emu.fabric.local import LocalFabric", 1),
        ("emu.transport.loop", "import select\nfrom firmware_cmds import TABLE", 1),
        ("emu.service", "import signal\nfrom firmware_cmds import TABLE", 0),
        ("emu.timeline", "import timeit", 0),
        ("emu.hca", "if TYPE_CHECKING:\n  from emu.trace import Recorder", 1),
        ("emu.hca", "from emu.function import Tracer", 0),
        ("emu.engine.eq", "from emu.faults.injector import Injector", 1),
        ("emu.engine.eq", "from emu.points import FaultPoint", 0),
        ("emu.faults.events", "from emu.trace.decode import event_layout", 0),
    ],
)
def test_rule_itself(module, source, count):
    assert len(breaches(module, source)) == count
