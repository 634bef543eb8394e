"""Conditions: which functions a part of a capability group is for, and which model has what."""

import pytest

from emu.device.models import LINKS, MODELS
from emu.device.models.capability_sets import PARTS
from emu.device.models.conditions import Generation, ModelKind, Part, assembled
from emu.device.models.software_steering import can_own_tables, without_software_steering
from layouts.enums.caps import CapType, PortType

GENERATIONS = {
    "connectx4lx": Generation.CONNECTX4,
    "connectx5": Generation.CONNECTX5,
    "connectx6": Generation.CONNECTX6,
    "connectx6dx": Generation.CONNECTX6DX,
    "connectx6lx": Generation.CONNECTX6DX,
    "bluefield2": Generation.CONNECTX6DX,
    "connectx7": Generation.CONNECTX7,
    "bluefield3": Generation.CONNECTX7,
}
KIND = ModelKind(generation=Generation.CONNECTX6, link=PortType.ETH, is_vf=False)


@pytest.mark.parametrize(
    ("condition", "is_of"),
    [
        ({}, True),
        ({"since": Generation.CONNECTX6}, True),
        ({"since": Generation.CONNECTX6DX}, False),
        ({"until": Generation.CONNECTX6}, True),
        ({"until": Generation.CONNECTX5}, False),
        ({"link": PortType.ETH}, True),
        ({"link": PortType.IB}, False),
        ({"is_vf": False}, True),
        ({"is_vf": True}, False),
    ],
)
def test_each_condition(condition, is_of):
    part = Part(CapType.GENERAL, {"rc": 1}, **condition)
    assert part.is_of(KIND) is is_of
    assert (CapType.GENERAL in assembled([part], KIND)) is is_of


def test_the_last_part_with_a_field_counts():
    parts = [Part(CapType.GENERAL, {"rc": 1, "uc": 1}), Part(CapType.GENERAL, {"uc": 0, "ud": 1})]
    assert assembled(parts, KIND) == {CapType.GENERAL: {"rc": 1, "uc": 0, "ud": 1}}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_what_its_generation_has(name):
    """Beside flow tables of software, which an option takes away, and the rate of the port."""
    is_vf = name.endswith("-vf")
    generation = GENERATIONS[name.removesuffix("-vf")]
    for link, model in LINKS[name].items():
        kind = ModelKind(generation=generation, link=link, is_vf=is_vf)
        groups = assembled(PARTS, kind)
        plain = without_software_steering(model).capabilities
        having = {group: dict(fields) for group, fields in plain.items() if fields}
        if CapType.QOS in having:
            del having[CapType.QOS]["packet_pacing_max_rate"]
        assert having == groups
        assert (model.capabilities != plain) is can_own_tables(model)


@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("device_memory", None, {"connectx4lx"}),
        ("device_frequency_khz", 156_250, {"connectx4lx", "connectx5", "connectx6"}),
    ],
)
def test_what_tells_generations_apart(field, value, names):
    having = {name for name, model in MODELS.items() if model.general.get(field) == value}
    assert {name for name in having if not name.endswith("-vf")} == names


def test_no_part_is_for_nobody():
    """Every condition is met by some model, and none by one that another part takes back."""
    kinds = [
        ModelKind(
            generation=GENERATIONS[name.removesuffix("-vf")], link=link, is_vf=name.endswith("-vf")
        )
        for name, links in LINKS.items()
        for link in links
    ]
    for part in PARTS:
        assert any(part.is_of(kind) for kind in kinds), part
