"""Who may import whom: one ordered list, and a core that knows no operating system."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("layouts", "emu", "firmware_cmds")


def below(package, names):
    return [f"{package}.{name}" for name in names.split()]


ORDER = (
    "layouts",
    "emu.toml_lines",
    "emu.near",
    "emu.model_words",
    *below("emu.device", "errors rounds ports pci objects"),
    *below("emu.device.objects", "memory queues eth"),
    *below("emu.device", "models port adapter state.parts state"),
    *below("emu.device.engine", "events mr tm wqe nodnic qp ud rc rc.packets eth"),
    *below("emu.device", "engine cmdif function trace faults"),
    *below("emu.driver", "world command verbs keys ethernet"),
    "firmware_cmds",
    "emu.host",
    "emu.compiled",
    "emu.version",
    *below("emu.server", "net vfio vhost control service"),
    *below("emu.driver", "nodes transport"),
    *below(
        "emu.guests",
        "errors workdir cache architecture share archive options timeline channel inside kernel",
    ),
    "emu.compiled.building",
    *below("emu.guests", "requested image machine guest named conformance"),
    "emu.guests",
    *below("emu.instruments", "outcome coverage traceview minimize campaign chaos fuzz testing"),
    "emu.pytest_plugin",
    *below("emu.cli", "shared options runs commands"),
    "emu.cli",
    "emu.__main__",
)
"""From the bottom to the top. A module imports what stands in its own line or in one above it in
this list; imports for types count as well. What stands in a package and has no line of its own
(``emu.device.engine.qp_poll``) belongs to the package's line."""
PLACES = {name: number for number, name in enumerate(ORDER)}
BARE = ("emu", "emu.device", "emu.driver", "emu.server", "emu.instruments")
"""Packages that are folders and nothing else."""
SWITCH = ("emu", ["os", "emu.compiled.loading.install"])
"""The one exception: compiled code is chosen before any module of ours is imported."""

CORE = (
    "layouts", "emu.toml_lines", "emu.near", "emu.model_words", "emu.device", "firmware_cmds",
    *below("emu.driver", "world command verbs keys ethernet nodes"),
)  # fmt: skip
OPERATING_SYSTEM = (
    "asyncio", "concurrent", "ctypes", "fcntl", "mmap", "multiprocessing", "os", "select",
    "selectors", "signal", "socket", "subprocess", "tempfile", "threading", "time",
)  # fmt: skip
ANONYMOUS = ("emu.driver.world.memory", "mmap")
"""Memory of a mapping is no I/O: the host's kernel zeroes only the pages that are used."""
ASSEMBLERS = (
    "firmware_cmds", "emu.server.service", "emu.driver.nodes", "emu.driver.transport",
    "emu.cli.commands",
)  # fmt: skip
"""Only these import the commands: everybody else is handed their table."""


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def line_of(name):
    """The line of ORDER that a module belongs to: the longest; None for what is not ours."""
    while name and name not in PLACES:
        name = name.rpartition(".")[0]
    return name or None


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def statements(tree, *, types):
    """Yield all nodes of a source; without ``types``, not those that only a type checker reads."""
    waiting = [tree]
    for node in waiting:
        yield node
        skips = is_for_types(node) and not types
        waiting += node.orelse if skips else ast.iter_child_nodes(node)


@functools.cache
def imported(source, types=True, calls=True):
    """Return the dotted names that a source imports, in functions too, and by names in strings.

    Without ``types``, leave out what is imported for type checking, without ``calls`` what calls
    import.
    """
    names, own = [], {}
    for node in statements(ast.parse(source), types=types):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
            own |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names += found.values()
            own |= found
        elif isinstance(node, ast.Call) and calls:
            names += called(node, own)
    return names


def called(call, own):
    """Return the modules that a call imports: import_module("x"), and a walk of x.__path__ as x.*.

    ``own`` has the dotted names of what the source has imported.
    """
    function = ast.unparse(call.func).rpartition(".")[2]
    if function == "import_module" and isinstance(call.args[0], ast.Constant):
        return [call.args[0].value]
    if function in ("iter_modules", "walk_packages"):
        package, _, path = ast.unparse(call.args[0]).rpartition(".")
        return [f"{own.get(package, package)}.*"] if path == "__path__" else []
    return []


def breaches(module, source):
    """What a module must not import, and why."""
    own = line_of(module)
    for name in imported(source):
        other = line_of(name)
        if other is not None and PLACES[other] > PLACES[own]:
            yield f"{module} imports {name}: {other} stands after {own}"
        if within(module, CORE) and within(name, OPERATING_SYSTEM) and (module, name) != ANONYMOUS:
            yield f"{module} imports {name}: the core does no I/O"
        if within(name, ["firmware_cmds"]) and not within(module, ASSEMBLERS):
            yield f"{module} imports {name}: it is handed the commands' table"


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path.read_text()


def test_everyone_keeps_to_the_order():
    found = [
        breach
        for module, source in sources()
        if module not in BARE
        for breach in breaches(module, source)
    ]
    assert not found, "\n".join(["see ARCHITECTURE.md", *found])


def test_every_module_has_a_line():
    assert not [m for m, _ in sources() if m not in BARE and line_of(m) is None]


def test_every_line_has_a_module():
    there = [module for module, _ in sources()]
    assert not [line for line in ORDER if line not in there]


def test_bare_packages_import_nothing():
    found = [(name, imported(source)) for name, source in sources() if name in BARE]
    assert [each for each in found if each[1]] == [SWITCH]


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("layouts.objects.eq", "from emu.device.state.hca import Hca", 1),
        ("layouts.objects.eq", "import struct\nfrom layouts.prm import Prm", 0),
        ("layouts.objects.eq", 'importlib.import_module("emu.device.state.hca")', 1),
        ("emu.device.state.hca", "import time\nfrom os import path", 2),
        ("emu.device.state.hca", "def f():\n  import socket", 1),
        ("emu.device.objects.queues.send_queue", "from emu.server.vfio.loop import Loop", 1),
        ("emu.device.cmdif.interface", "from firmware_cmds import TABLE", 2),
        ("firmware_cmds.objects.qp", "from emu.device.engine.qp import lifecycle", 0),
        ("firmware_cmds.objects.qp", "from firmware_cmds.function.hca import x", 0),
        ("firmware_cmds.objects.qp", "from emu.server.net.ib.local import LocalFabric", 1),
        ("emu.server.vfio.loop", "import select\nfrom firmware_cmds import TABLE", 1),
        ("emu.server.service", "import signal\nfrom firmware_cmds import TABLE", 0),
        ("emu.device.trace", "import timeit", 0),
        ("emu.device.state.hca", "if TYPE_CHECKING:\n  from emu.device.trace import Recorder", 1),
        ("emu.device.state.hca", "from emu.device.function.tracer import Tracer", 1),
        ("emu.device.engine.events.eq", "from emu.device.faults.injector import Injector", 1),
        ("emu.device.engine.events.eq", "from emu.device.state.points import FaultPoint", 0),
        ("emu.device.faults.events", "from emu.device.trace.decode import event_layout", 0),
        (
            "emu.device.objects.queues.qp",
            "if TYPE_CHECKING:\n  from emu.device.engine.rc import x",
            1,
        ),
        ("emu.device.objects.table", "from emu.device.objects.queues.qp import Qp", 1),
        ("emu.device.engine.rc.responder", "from emu.device.objects.queues.qp import Qp", 0),
        ("emu.device.engine.events.cq", "from emu.device.engine.lifecycle import run", 1),
        ("emu.device.engine.lifecycle", "from emu.device.engine.events import cq", 0),
        ("emu.server.net.ib.local", "from emu.device.engine.ud import delivery", 0),
        ("emu.server.service.server", "from emu.guests.guest import guest", 1),
        ("emu.driver.verbs.node", "from firmware_cmds import TABLE", 2),
        ("emu.driver.nodes.two_nodes", "from firmware_cmds import TABLE", 0),
        ("emu.driver.transport.vfio_client", "import socket", 0),
        ("emu.driver.command.driver", "import socket", 1),
        ("emu.device.engine.rc", "from emu.driver.verbs.node import Node", 1),
        ("emu.guests.kernel.choice", "from emu.guests.image import recipe", 1),
        ("emu.guests.image.build", "from emu.guests.kernel.modules import load_order", 0),
        ("emu.guests.errors", "from emu.guests import Guest", 1),
        ("emu.guests.guest.guest", "from emu.host import paths", 0),
        ("emu.guests.guest.guest", "from emu.instruments.outcome import severity", 1),
    ],
)
def test_rule_itself(module, source, count):
    assert len(list(breaches(module, source))) == count


MUTUAL = [
    ["emu.device.adapter.adapter", "emu.device.adapter.board"],
    ["emu.device.objects.queues.page_fault", "emu.device.objects.queues.qp"],
]
"""Modules that name each other's classes for a type checker only, as their objects refer to each
other: a board has adapters, which know their board; a queue pair waits for page faults.
"""


def imports(known, **counted):
    """Return the modules of ours that each module imports; ``known`` has the sources by name.

    ``counted`` says which imports count, see :func:`imported`.
    """

    def resolve(module, name):
        if name.endswith(".*"):
            above = f"{name.removesuffix('*').lstrip('.') or module}".rstrip(".")
            return {other for other in known if other.startswith(f"{above}.")}
        while name and name not in known:
            name = name.rpartition(".")[0]
        return {name} - {""}

    return {
        module: set().union(*(resolve(module, name) for name in imported(source, **counted)))
        - {module}
        for module, source in known.items()
    }


def package_of(module):
    """The folder that a module lies in; a module beside the packages stands for itself."""
    folder = ROOT.joinpath(*module.split("."))
    if folder.is_dir():
        return module
    package = module.rpartition(".")[0]
    return module if package in (*BARE, "emu.guests") else package


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


def test_no_modules_import_each_other():
    """Imports in functions and by names in strings count."""
    assert not circles(imports(dict(sources()), types=False))


def test_few_modules_name_types_of_each_other():
    assert sorted(circles(imports(dict(sources())))) == MUTUAL


@pytest.mark.parametrize(
    ("first", "second", "is_circle"),
    [
        ("from layouts import two", "import layouts.one", True),
        ("import layouts.two", "", False),
        ("import layouts.two", "def f():\n  from layouts.one import x", True),
        ("def f():\n  import layouts.two", "def f():\n  import layouts.one", True),
        ("import layouts.two", 'importlib.import_module("layouts.one")', True),
        ("import layouts.two", 'import_module("layouts.one").x', True),
        ("import layouts.two", "import layouts\nwalk_packages(layouts.__path__)", True),
        ("import layouts.two", "if TYPE_CHECKING:\n  from layouts.one import x", False),
        ("import layouts.two", "if TYPE_CHECKING:\n  x: int\nelse:\n  import layouts.one", True),
    ],
)
def test_hidden_imports_are_found(first, second, is_circle):
    graph = imports({"layouts.one": first, "layouts.two": second}, types=False)
    assert bool(circles(graph)) is is_circle


def test_modules_of_a_package_are_found():
    known = {"layouts": "", "layouts.one": "pkgutil.iter_modules(__path__)", "layouts.one.two": ""}
    assert imports(known)["layouts.one"] == {"layouts.one.two"}


def test_no_packages_import_each_other():
    """Calls do not count: a package imports those below it so that they register themselves."""
    graph = {}
    for module, others in imports(dict(sources()), calls=False).items():
        own = package_of(module)
        graph.setdefault(own, set()).update({package_of(other) for other in others} - {own})
    assert not circles(graph)


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert circles(graph) == [["a", "b", "c"]]


def map_for(folder):
    """The nearest page above a folder that shows what is where."""
    for above in folder.parents:
        page = above / ("ARCHITECTURE.md" if above == ROOT else "README.md")
        if page.exists():
            return page
    raise AssertionError(folder)


def test_a_map_shows_every_folder():
    """The README of a package names each folder with sources that is in it."""
    packages = [ROOT / name for name in PACKAGES]
    found = {path.parent for package in packages for path in package.rglob("*.py")} - {ROOT / "emu"}
    missing = [
        f"{map_for(folder).relative_to(ROOT)}: {folder.name}/"
        for folder in sorted(found)
        if f"{folder.name}/" not in map_for(folder).read_text()
    ]
    assert not missing


MAX_MODULES_PER_PACKAGE = 20


def test_a_package_is_seen_at_a_glance():
    """No folder of ours has so many files that nobody reads its list."""
    found = [
        path
        for name in (*PACKAGES, "scripts")
        for path in (ROOT / name).rglob("*.py")
        if path.name != "__init__.py"
    ]
    packages = Counter(str(path.parent.relative_to(ROOT)) for path in found)
    crowded = {name: count for name, count in packages.items() if count > MAX_MODULES_PER_PACKAGE}
    assert not crowded


_NAMED = re.compile(r"`([\w./-]+\.(?:py|sh|toml))`")


def test_pages_name_files_that_are_there():
    """A file that a layer's page names lies beside it, below it or where its path says."""
    pages = [ROOT / "ARCHITECTURE.md", *ROOT.glob("emu/**/README.md"), ROOT / "layouts/README.md"]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages
        for name in _NAMED.findall(page.read_text())
        if not (page.parent / name).exists()
        and not (ROOT / name).exists()
        and not list(page.parent.rglob(name))
        and name not in ELSEWHERE
    ]
    assert not missing


ELSEWHERE = {"rxe_resp.c"}
