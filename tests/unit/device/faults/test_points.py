"""Declarations of fault points: that all are there, and that none is half there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import emu
from emu.device.faults import registry
from emu.device.faults.event import Event, EventField, Opened
from emu.device.faults.registry import DeclarationError, Parameter, action, effect, point
from emu.device.faults.schema import ACTIONS, POINTS
from emu.device.state.points import FaultPoint

CORE = Path(emu.__file__).parent
KEY = re.compile(r"\bFaultPoint\(\s*\"([^\"]+)\"")


def test_what_is_shown_is_declared_and_what_is_declared_is_shown():
    shown = [name for path in CORE.rglob("*.py") for name in KEY.findall(path.read_text())]
    shown.remove("irq")  # the example in emu/device/faults/registry.py
    assert sorted(shown) == sorted(POINTS)


@pytest.mark.parametrize("point", POINTS.values(), ids=lambda declared: declared.name)
def test_a_points_actions_are_its_events_methods(point):
    for name, one in point.actions.items():
        assert one.carry_out is getattr(point.event, name)
        assert point.name in ACTIONS[name].uses


@pytest.fixture
def own_registry(monkeypatch):
    """Declarations of a test leave nothing behind."""
    for name in ("POINTS", "EFFECTS", "PARAMETERS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


class Whole(Event[None]):
    """Nothing is missing."""

    def __init__(self, faults, qpn):
        super().__init__(faults)
        self.qpn = qpn

    qpn = 0

    def go_on(self):
        """It goes on."""

    @action("it is lost")
    def drop(self, rule):
        """It does not."""


def without(**changes):
    return type("Part", (Whole,), changes)


@pytest.mark.usefixtures("own_registry")
def test_a_whole_declaration():
    point(FaultPoint("test.whole"), "something happens", EventField("qpn", int))(Whole)
    declared = registry.POINTS["test.whole"]
    assert list(declared.actions) == ["drop"]
    event = Whole(None, 5)
    assert event.agrees({"qpn": "4..6"})
    assert not event.agrees({"qpn": 4})


QPN = EventField("qpn", int)


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(
    ("key", "about", "fields", "event", "why"),
    [
        ("test.part", "", [QPN], Whole, "no description of its events"),
        ("Test Part", "it happens", [QPN], Whole, "the name is not lower-case words"),
        ("test.part", "it happens", [QPN, QPN], Whole, "two fields have the same name"),
        (
            "test.part",
            "it happens",
            [EventField("cqn", int)],
            Whole,
            "no attribute for field 'cqn'",
        ),
        (
            "test.part",
            "it happens",
            [EventField("go_on", int)],
            Whole,
            "'go_on' has the name of a meth",
        ),
        (
            "test.part",
            "it happens",
            [EventField("drop", int)],
            Whole,
            "'drop' has the name of a method",
        ),
        ("test.part", "it happens", [], without(go_on=Event.go_on), "no method go_on"),
        ("test.part", "it happens", [], without(views=dict), "opened and a method views are"),
        ("test.part", "it happens", [], object, "not a subclass of Event"),
    ],
)
def test_a_declaration_with_a_gap(key, about, fields, event, why):
    with pytest.raises(DeclarationError, match=why):
        point(FaultPoint(key), about, *fields)(event)
    assert key not in registry.POINTS


@pytest.mark.usefixtures("own_registry")
def test_a_point_is_declared_once():
    before = registry.POINTS["cmd"]
    with pytest.raises(DeclarationError, match="CommandRuns is declared as that point already"):
        point(FaultPoint("cmd"), "it happens", QPN)(Whole)
    assert registry.POINTS["cmd"] is before


@pytest.mark.usefixtures("own_registry")
def test_fields_beside_the_declared_ones_need_views():
    opened = Opened("those of the input", lambda _match: [])
    with pytest.raises(DeclarationError, match="opened and a method views are needed together"):
        point(FaultPoint("test.part"), "it happens", opened=opened)(Whole)


@pytest.mark.usefixtures("own_registry")
def test_actions_say_what_happens_and_are_no_effects():
    for name, about, why in (
        ("lose", "", "'lose' has no description"),
        ("gone", "x", "'gone' is an eff"),
    ):

        def method(self, rule):
            """Not called."""

        method.__name__ = name
        part = without(**{name: action(about)(method)})
        with pytest.raises(DeclarationError, match=why):
            point(FaultPoint("test.part"), "it happens")(part)


@pytest.mark.usefixtures("own_registry")
def test_a_parameter_has_one_type():
    part = without(drop=action("it is lost", takes=[Parameter("ms", str)])(Whole.drop))
    with pytest.raises(DeclarationError, match="parameter 'ms' is declared with two types"):
        point(FaultPoint("test.part"), "it happens")(part)


@pytest.mark.usefixtures("own_registry")
def test_effects_are_declared_once_and_whole():
    def drop(effects, rule):
        """Not called."""

    def melt(effects, rule):
        """Not called."""

    with pytest.raises(DeclarationError, match="'drop': an action has this name already"):
        effect("it happens")(drop)
    with pytest.raises(DeclarationError, match="'melt': no description"):
        effect("")(melt)
