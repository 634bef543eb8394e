"""Stubs: what a type checker is told of the structures is what their views are."""

import ast
from pathlib import Path
from types import ModuleType

import pytest
from helpers.each import for_each
from helpers.pure import pure_only

from layouts.codec import ArrayView, View
from layouts.prm import Prm, array, bits, octets, rsvd, tail
from layouts.registry import modules, structures
from layouts.stubs import HEAD, class_name, stubs

pure_only("it reads the sources of the modules")

ROOT = Path(__file__).parents[3]
TEXTS = stubs(modules())
TOLD = {"int": int, "Octets": bytes, "Nested": View, "Items": ArrayView}
"""Annotations of fields, and what they are read as."""


def path_of(module):
    return ROOT.joinpath(*module.split(".")).with_suffix(".pyi")


@for_each({name: name for name in TEXTS})
def test_stubs_are_current(module):
    assert path_of(module).read_text() == TEXTS[module], "run scripts/gen-view-types"


def test_every_written_stub_has_its_module():
    first = HEAD.partition("{}")[0]
    written = {path for path in ROOT.glob("layouts/**/*.pyi") if path.read_text().startswith(first)}
    assert written == {path_of(module) for module in TEXTS}


def told_of(module):
    """The classes of a stub, with the annotation of each field."""
    return {
        node.name: {
            line.target.id: line.annotation for line in node.body if isinstance(line, ast.AnnAssign)
        }
        for node in ast.parse(TEXTS[module]).body
        if isinstance(node, ast.ClassDef)
    }


CLASSES = {name: fields for module in TEXTS for name, fields in told_of(module).items()}


@for_each(structures())
def test_a_stub_tells_what_a_view_reads(prm):
    view = prm.view(bytearray(prm.size))
    for name, annotation in CLASSES[class_name(prm.prm_name)].items():
        kind = getattr(annotation, "value", annotation).id
        assert isinstance(getattr(view, name), TOLD[kind]), name


@for_each(structures())
def test_a_stub_has_every_field_but_keywords(prm):
    names = [field.name for field in prm.fields if field.name not in ("in", "class")]
    assert list(CLASSES[class_name(prm.prm_name)]) == names


def module_of(monkeypatch, source, **values):
    """A module with a source and with what it declares."""
    module = ModuleType("layouts.rooms.made")
    vars(module).update(values)
    monkeypatch.setattr("inspect.getsource", lambda _: source)
    return module


def test_a_structure_inside_another_has_a_class_of_its_own(monkeypatch):
    inner = Prm("inner", "a" / bits(8))
    outer = Prm("outer", "one" / inner, "many" / array(2, inner), "rest" / tail(octets(2)))
    (text,) = stubs([module_of(monkeypatch, "outer = Prm()", outer=outer)]).values()
    assert text == (
        "# Written by scripts/gen-view-types from made.py; a test fails when it is stale.\n"
        "\n"
        "from layouts.codec import View\n"
        "from layouts.fields import Items, Nested\n"
        "from layouts.prm import Prm\n"
        "\n"
        "class OuterOne(View):\n"
        "    a: int\n"
        "\n"
        "class OuterMany(View):\n"
        "    a: int\n"
        "\n"
        "class Outer(View):\n"
        "    one: Nested[OuterOne]\n"
        "    many: Items[OuterMany]\n"
        "    rest: Items[bytes]\n"
        "\n"
        "outer: Prm[Outer]\n"
    )


def test_a_structure_without_fields_has_an_empty_class(monkeypatch):
    module = module_of(monkeypatch, "nothing = Prm()", nothing=Prm("nothing", rsvd(8)))
    assert "class Nothing(View): ...\n" in stubs([module])["layouts.rooms.made"]


def test_two_structures_do_not_share_a_class(monkeypatch):
    one, two = Prm("a_1", "x" / bits(8)), Prm("a1", "x" / bits(8))
    module = module_of(monkeypatch, "a_1 = Prm()\na1 = Prm()", a_1=one, a1=two)
    with pytest.raises(TypeError, match="two structures would be A1"):
        stubs([module])


@pytest.mark.parametrize("hidden", ["def told(): ...", "class told: ..."])
def test_a_module_of_structures_hides_nothing_from_mypy(monkeypatch, hidden):
    values = {"one": Prm("one", "x" / bits(8)), "told": lambda: None}
    with pytest.raises(TypeError, match=r"made\.told would be hidden"):
        stubs([module_of(monkeypatch, f"one = Prm()\n{hidden}", **values)])


def test_a_module_without_structures_has_no_stub(monkeypatch):
    assert not stubs([module_of(monkeypatch, "def told(): ...", told=print)])
