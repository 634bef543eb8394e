"""A function's parameters say what it may touch: few functions take the whole Hca for two parts."""

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINK = ROOT / "emu/device/port/link.py"
STATE = ROOT / "emu/device/state/hca.py"
ENGINE = ROOT / "emu/device/engine"

MAX_ATTRIBUTES = 35
"""Attributes that the state of a function has besides its tables of objects."""
FEW = 2
MAX_SHARES = {"emu/device/engine": 0.03, "firmware_cmds": 0.27}
"""Share of the functions with an Hca that need at most FEW of its attributes, themselves and
through the functions that they hand it to. Handlers of commands have one signature for all."""
MAX_DIRECT = {"emu/device/engine": 179, "firmware_cmds": 109}
"""Functions with an Hca that use at most FEW of its attributes themselves. Most of them hand it to
others that need more."""


class Taker(NamedTuple):
    """A function with an Hca: attributes that it uses, functions that get it, or other uses."""

    attributes: set[str]
    receivers: set[str]
    needs_whole: bool


def imports(tree, module):
    """Full names by the names that a module gives to its functions and imports."""
    names = {node.name: f"{module}.{node.name}" for node in tree.body if hasattr(node, "name")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def takers_of(source, module):
    """The functions and methods of a module that take an Hca, by full name."""
    tree = ast.parse(source)
    names = imports(tree, module)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        taken = {
            one.arg
            for one in (*node.args.args, *node.args.kwonlyargs)
            if one.annotation is not None and ast.unparse(one.annotation) == "Hca"
        }
        if taken:
            owner = parents[node]
            within = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
            uses = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in taken]
            found[f"{module}.{within}{node.name}"] = taker(uses, parents, names)
    return found


def taker(uses, parents, names):
    attributes, receivers, needs_whole = set(), set(), False
    for use in uses:
        around = parents[use]
        if isinstance(around, ast.Attribute):
            attributes.add(around.attr)
        elif isinstance(around, ast.Call) and use in around.args:
            called = ast.unparse(around.func)
            if called == "partial":
                called = ast.unparse(around.args[0])
            head, dot, rest = called.partition(".")
            receivers.add(names.get(head, f"?{head}") + dot + rest)
        else:
            needs_whole = True
    return Taker(attributes, receivers, needs_whole)


def needs(takers):
    """Number of attributes that each function needs; None for one that needs the whole Hca.

    A function that is not known here, a method for example, may need all of it.
    """
    needed = {name: set(one.attributes) for name, one in takers.items()}
    whole = {
        name for name, one in takers.items() if one.needs_whole or one.receivers - takers.keys()
    }
    is_changing = True
    while is_changing:
        is_changing = False
        for name, one in takers.items():
            for other in one.receivers & takers.keys():
                if not needed[other] <= needed[name]:
                    needed[name] |= needed[other]
                    is_changing = True
                if other in whole and name not in whole:
                    whole.add(name)
                    is_changing = True
    return {name: None if name in whole else len(all_of) for name, all_of in needed.items()}


def own_attributes(source):
    (state,) = (
        one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == "Hca"
    )
    return {
        one.attr
        for one in ast.walk(state)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }


def test_the_state_has_few_attributes():
    assert len(own_attributes(STATE.read_text())) <= MAX_ATTRIBUTES


def takers_below(folder):
    """The functions and methods below a folder that take an Hca, by full name."""
    takers = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        takers |= takers_of(path.read_text(), module)
    return takers


@pytest.mark.parametrize("folder", MAX_SHARES)
def test_few_functions_take_all_for_little(folder):
    needed = needs(takers_below(folder))
    narrow = sorted(name for name, count in needed.items() if count is not None and count <= FEW)
    assert len(narrow) <= MAX_SHARES[folder] * len(needed), "\n".join(
        ["hand them what they need, see emu/device/README.md", *narrow]
    )


@pytest.mark.parametrize("folder", MAX_DIRECT)
def test_no_more_functions_hand_it_on(folder):
    takers = takers_below(folder).values()
    assert sum(len(one.attributes) <= FEW for one in takers) <= MAX_DIRECT[folder]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return hca.qps", 1),
        ("return hca.qps.get(hca.caps.x)", 2),
        ("return many(hca)", 3),
        ("return partial(many, hca)", 3),
        ("return elsewhere(hca)", None),
        ("return hca.wire.send(hca)", None),
        ("return hca is other", None),
        ("return loop(hca)", 1),
    ],
)
def test_needs_are_counted(body, count):
    source = (
        f"def asked(hca: Hca, other): {body}\n"
        "def many(hca: Hca): return hca.qps, hca.caps, hca.wire\n"
        "def loop(hca: Hca): return hca.qps if 0 else loop(hca)\n"
    )
    assert needs(takers_of(source, "m"))["m.asked"] == count


MAX_VIEW = 8
"""Members of a view of the link, inherited ones included."""
TAKES_LINK = {"rc/dynamic.py: _accepts", "rc/packets/migration.py: _comes_by_alternate"}
"""Functions of the engine that need several views of the link at once."""


def test_views_of_the_link_are_narrow():
    classes = [one for one in ast.parse(LINK.read_text()).body if isinstance(one, ast.ClassDef)]
    members, own = {"Protocol": set()}, {}
    for one in classes:
        own[one.name] = {
            getattr(part, "name", None) or part.target.id
            for part in one.body
            if isinstance(part, (ast.FunctionDef, ast.AnnAssign))
        }
        inherited = (members[ast.unparse(base)] for base in one.bases)
        members[one.name] = own[one.name].union(*inherited)
    whole = members.pop("Link")
    assert not own["Link"]
    assert max(map(len, members.values())) <= MAX_VIEW < len(whole)


def test_functions_take_views_of_the_link():
    found = {
        f"{path.relative_to(ENGINE).as_posix()}: {node.name}"
        for path in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        for one in (*node.args.args, *node.args.kwonlyargs)
        if one.annotation is not None and ast.unparse(one.annotation) == "Link"
    }
    assert found == TAKES_LINK


def test_attributes_are_counted():
    source = "class Hca:\n def __init__(self): self.a = 1\n def f(self): self.b = self.c = self.d.e"
    assert own_attributes(source) == {"a", "b", "c"}
