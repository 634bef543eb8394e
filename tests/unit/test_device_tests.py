"""What tests of a function may know of its inside: a redesign of the engine is not to break them.

A device test drives a function as a driver does (``emu/driver``), and looks at memory, completions,
events and counters. A test that looks inside stands in tests/unit/device, beside what it looks
into.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ENGINE, DEVICE = "emu.device.engine", ("emu.device", "firmware_cmds", "layouts")
MAX_ENGINE_MODULES = 20
"""Modules that import the engine: they make it fail, or build an adapter of its parts."""
MAX_REPLACED = 40
"""Names of the device that tests replace by monkeypatch."""
REPLACING = {"setattr", "setitem", "delattr", "delitem"}
PATCHES = {"monkeypatch", "patch"}
"""Names of the fixture, and of its contexts."""


def modules(*folders):
    """Path and tree of each test module of these folders of tests/."""
    for folder in folders:
        for path in sorted((TESTS / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def imported(tree):
    """(local name, dotted name) of all that a module imports, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def is_within(name, packages):
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def replaced(tree, *, is_device):
    """Line of each name that a module replaces; ``is_device``: only names of the device."""
    ours = {name for name, dotted in imported(tree) if is_within(dotted, DEVICE)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Name(patch), name), [target, *_]) if (
                patch in PATCHES and name in REPLACING
            ):
                if not is_device or _is_of_device(target, ours):
                    yield node.lineno
            case ast.Call(ast.IfExp(_, ast.Attribute(ast.Name(patch)))) if patch in PATCHES:
                yield node.lineno
            case ast.Assign([ast.Attribute(ast.Name(module))]) if module in ours:
                yield node.lineno


def _is_of_device(target, ours):
    if isinstance(target, ast.Constant):
        return is_within(str(target.value), DEVICE)
    root = target
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    return isinstance(root, ast.Name) and (root.id in ours or root.id in ("function", "hca"))


def test_few_modules_import_the_engine():
    """Helpers that import it on behalf of tests count as well."""
    found = [
        str(path.relative_to(TESTS))
        for path, tree in modules("device", "transport", "helpers")
        if any(is_within(name, [ENGINE]) for _, name in imported(tree))
    ]
    assert len(found) <= MAX_ENGINE_MODULES, "\n".join(found)


def test_few_names_of_the_device_are_replaced():
    """In device tests every name counts, in others those of the device."""
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for folder, is_device in (("device", False), ("helpers/device", False), ("transport", True))
        for path, tree in modules(folder)
        for line in replaced(tree, is_device=is_device)
    ]
    assert len(found) <= MAX_REPLACED, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("monkeypatch.setattr(one, 'name', 1)", [1]),
        ("with monkeypatch.context() as patch:\n    patch.setitem(one, 'name', 1)", [2]),
        ("(monkeypatch.setitem if True else monkeypatch.setattr)(one, 'name', 1)", [1]),
        ("from emu.device.engine import lifecycle\nlifecycle.run = None", [2]),
        ("node.driver.run = None", []),
        ("monkeypatch.chdir('/')", []),
    ],
)
def test_replacements_are_found(source, lines):
    assert list(replaced(ast.parse(source), is_device=False)) == lines


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("monkeypatch.setattr('emu.device.faults.plan.MAX_RULES', 5)", 1),
        ("from emu.device.trace.file import TraceFile\nmonkeypatch.setattr(TraceFile, 'a', 1)", 1),
        ("monkeypatch.setattr(function.hca.pds, 'add', 1)", 1),
        ("import os\nmonkeypatch.setattr(os, 'open', 1)", 0),
        ("monkeypatch.setattr('emu.server.net.fabric.hub.MAX_MEMBERS', 2)", 0),
    ],
)
def test_names_of_the_device_are_told_from_others(source, count):
    assert len(list(replaced(ast.parse(source), is_device=True))) == count
