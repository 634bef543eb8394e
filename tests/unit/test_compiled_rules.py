"""What mypyc does otherwise than Python, where its compiler says nothing (CONTRIBUTING.md)."""

import ast
from pathlib import Path

import pytest

from emu.compiled.sources import DEVICE

ROOT = Path(__file__).parents[2]
PACKAGES = ("layouts", "emu", "firmware_cmds")
COMPILED = {ROOT / name for name in DEVICE.paths()}


def bindings(source):
    """For each function: by name, what its ``except`` clauses bind to it."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            found = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name:
                    found.setdefault(node.name, set()).add(ast.unparse(node.type))
            yield function.name, found


def ambiguous(source):
    """Functions in which one name is bound to exceptions of several types."""
    return [
        f"{function}: {name}"
        for function, found in bindings(source)
        for name, types in found.items()
        if len(types) > 1
    ]


def module_path(module):
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"


def derived(source):
    """Classes that derive from one of a compiled module."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: module_path(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if imported.get(ast.unparse(base).partition("[")[0]) in COMPILED
    ]


def constants(source):
    """By name: for each class but enumerations, whether the constants of its body are ClassVar."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        if any(ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases):
            continue
        for line in node.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else None
            is_class_var = False
            if isinstance(line, ast.AnnAssign):
                target, is_class_var = line.target, "ClassVar" in ast.unparse(line.annotation)
            if isinstance(target, ast.Name) and target.id.isupper():
                yield f"{node.name}.{target.id}", is_class_var


def unhashable(source):
    """Classes that compare without a hash: Python keeps the hash of ``object``, C does not."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            if methods & {"__lt__", "__le__", "__gt__", "__ge__"} and "__hash__" not in methods:
                yield node.name


def slices(source):
    """Calls of ``slice``."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "slice"
    ]


def counting(source):
    """Classes whose objects may be false."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            if methods & {"__len__", "__bool__"}:
                yield node.name


def may_be_none(annotation, classes):
    """Whether an annotation is one of the classes, or None."""
    written = "" if annotation is None else ast.unparse(annotation)
    names = {name.partition("[")[0] for name in written.split(" | ")}
    return "None" in names and bool(names & classes)


def truths(node):
    """The expressions of a statement or expression whose truth is asked for."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        yield from truth_of(node.test)
    elif isinstance(node, ast.BoolOp):
        yield from truth_of(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from truth_of(node.operand)


def truth_of(node):
    yield from node.values if isinstance(node, ast.BoolOp) else [node]


def optional(source, classes):
    """Attributes, and functions by their results, that are one of the classes or None."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and may_be_none(node.annotation, classes):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.FunctionDef) and may_be_none(node.returns, classes):
            yield node.name


def truths_of(source, optional):
    """The truths that a module asks of these attributes, or of results of these functions."""
    nodes, names = [*ast.walk(ast.parse(source))], {*optional}
    for node in nodes:
        if isinstance(node, ast.Assign) and optional & {
            ast.unparse(one.func) for one in ast.walk(node.value) if isinstance(one, ast.Call)
        }:
            names.add(ast.unparse(node.targets[0]))
    return sorted(names & {ast.unparse(one) for node in nodes for one in truths(node)})


def test_what_is_compiled_is_there():
    assert all((ROOT / name).is_dir() for name in DEVICE.packages)
    assert all((ROOT / name).is_file() for name in (*DEVICE.modules, *DEVICE.left_out))


def test_an_exception_of_another_type_has_a_name_of_its_own():
    """The first clause's type is the name's in the whole function, and is checked."""
    found = {path: ambiguous(path.read_text()) for path in COMPILED}
    assert not {str(path): names for path, names in found.items() if names}


def test_constants_of_classes_are_theirs():
    """Those who read them from the class, outside of compiled code, would get a descriptor."""
    found = {}
    for path in COMPILED:
        for name, is_class_var in constants(path.read_text()):
            found.setdefault(name.partition(".")[2], []).append((name, is_class_var))
    # A subclass inherits the declaration.
    assert not [name for each in found.values() for name, _ in each if not any(x for _, x in each)]


def test_nobody_outside_derives_from_a_class_inside():
    outside = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path not in COMPILED
    ]
    found = {path: derived(path.read_text()) for path in outside}
    assert not {str(path): names for path, names in found.items() if names}


def test_what_is_compared_can_be_hashed():
    assert not [(str(path), name) for path in COMPILED for name in unhashable(path.read_text())]


def test_no_slice_objects():
    """Bytes that are sliced by one are indexed by a number, and fail."""
    assert not [str(path) for path in COMPILED if slices(path.read_text())]


def test_what_may_be_none_is_compared_with_it():
    """In C such an object is true, whatever its ``__len__`` says."""
    texts = {path: path.read_text() for path in COMPILED}
    classes = {name for text in texts.values() for name in counting(text)}
    names = {name for text in texts.values() for name in optional(text, classes)}
    assert not {str(path): names for path, text in texts.items() if truths_of(text, names)}


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        ("except A as e: pass\n except B as e: pass", ["f: e"]),
        ("except A as e: pass\n except B as b: pass", []),
        ("except A as e: pass", []),
    ],
)
def test_the_check_sees(clauses, found):
    assert ambiguous(f"def f():\n try: pass\n {clauses}") == found


def test_the_other_check_sees():
    line = "from emu.device.objects.object import Object\n"
    assert derived(line + "class A(Object): pass\nclass B(A): pass") == ["A"]
    assert derived("from emu.device.objects.object import Object as O\nclass A(O): pass") == ["A"]
    assert derived("from typing import Protocol\nclass A(Protocol[int]): pass") == []


def test_the_checks_of_hashes_and_slices_see():
    compared = "class A:\n def __lt__(self, other): return True\n"
    assert [*unhashable(compared)] == ["A"]
    assert not [*unhashable(f"{compared} def __hash__(self): return 1")]
    assert slices("span = slice(1, 2)") == [1]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("if self.parts: pass", ["self.parts"]),
        ("more = self.other or self.parts", ["self.parts"]),
        ("if self.parts is not None and len(self.parts): pass", []),
        ("one = packets() if True else None\nwhile not one: pass", ["one"]),
        ("one = packets()\nif one is None: pass", []),
    ],
)
def test_the_check_of_truths_sees(asked, found):
    """``parts`` and ``packets`` may be None; ``Parts`` has a length."""
    declared = "class Parts:\n def __len__(self): return 0\n"
    declared += "self.parts: Parts | None = None\ndef packets() -> Parts | None: pass\n"
    names = {*optional(declared, {*counting(declared)})}
    assert names == {"self.parts", "packets"}
    assert truths_of(asked, names) == found
