"""Mistakes in users' files are in this project's words: each key of each table, given each value.

pydantic's own words name types of Python and its own rules ("Input should be a valid integer").
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
import tomli_w

from emu.device.faults.link import PlannedLink
from emu.device.faults.parser import PlanError, load
from emu.device.faults.plan import Expectation, Plan, WholeRule
from emu.guests.named import topology
from emu.host.user_error import UserError
from emu.instruments.campaign import matrix, matrix_tables
from emu.model_words import given_text

LIBRARYS = re.compile(
    r"[Ii]nput should|Value error|Assertion|Field required|permitted|should (have|be|match)"
    r"|validation|pydantic|constrained|\b(str|int|float|bool|dict|tuple|NoneType)\b|None|True|False"
)
"""Words of pydantic and of Python in a message."""
GIVEN = (
    "x", "", "x" * 3000, -1, 0, 10**18, 1.5, -1.5, float("nan"), float("inf"), True,
    "a\0", [], ["x"], ["x" * 3000], ["a\0"], [1], [True], [["x"]],
    [{"x": 1}], {}, {"x": 1}, {"x": {"y": []}},
)  # fmt: skip
"""A value of each of TOML's types, and values outside of usual limits."""
RULE = {"point": "cmd", "action": "fail"}
Tables = dict[str, tuple[Any, dict[str, str]]]
PLAN_TABLES: Tables = {
    "": (Plan, {}),
    "rule": (WholeRule, RULE),
    "link": (PlannedLink, {}),
    "expect": (Expectation, {}),
}
MATRIX_TABLES: Tables = {
    "": (matrix_tables.Matrix, {}),
    "guest": (matrix_tables.MatrixGuestTable, {}),
    "kernel": (matrix_tables.KernelTable, {"name": "k"}),
    "device": (matrix_tables.DeviceTable, {"name": "d"}),
    "workload": (matrix_tables.WorkloadTable, {"name": "w", "run": "true"}),
    "plan": (matrix_tables.PlanTable, {}),
    "exclude": (matrix_tables.ExcludeTable, {"plan": "x"}),
}
LAB_TABLES: Tables = {
    "": (topology.TopologyFile, {}),
    "guest": (topology.LabGuestTable, {"name": "g"}),
    "server": (topology.ServerTable, {}),
}
ALONE = {"expect", "server"}
"""Tables that a file has once; a campaign's [guest] is one, too."""


def read_plan(text, path):
    load(text, str(path))


def read_matrix(text, path):
    path.write_text(text)
    matrix.read(path)


def read_lab(text, path):
    path.write_text(text)
    topology.read(path)


def fields(tables, reader):
    for table, (model, whole) in tables.items():
        for key in (*model.model_fields, "unknown"):
            yield pytest.param(reader, table, whole, key, id=f"{reader.__name__}-{table}-{key}")


CASES = [
    *fields(PLAN_TABLES, read_plan),
    *fields(MATRIX_TABLES, read_matrix),
    *fields(LAB_TABLES, read_lab),
]


def refusal(reader, path, table, content):
    """Return the error for a file with one table, as a text; "" if the file is good."""
    whole = {"workload": [{"name": "w", "run": "true"}]} if reader is read_matrix else {}
    whole |= {"guest": [{"name": "a"}]} if reader is read_lab else {}
    is_alone = table in ALONE or (reader, table) == (read_matrix, "guest")
    whole |= {table: content if is_alone else [content]} if table else content
    try:
        reader(tomli_w.dumps(whole), path)
    except (UserError, PlanError) as error:
        return str(error)
    return ""


@pytest.mark.hostile
@pytest.mark.parametrize(("reader", "table", "whole", "key"), CASES)
def test_a_wrong_value_is_told_in_our_words(tmp_path, reader, table, whole, key):
    path = tmp_path / "file.toml"
    refused = 0
    for value in GIVEN:
        text = refusal(reader, path, table, {**whole, key: value})
        refused += bool(text)
        for line in text.splitlines():
            own = line.replace(str(path), "").replace(repr(value), "").partition(": ")[2]
            assert not LIBRARYS.search(own), (value, line)
            assert re.match(rf"{re.escape(str(path))}:\d+: ", line), (value, line)
    assert refused


@pytest.mark.parametrize(
    ("reader", "table", "whole", "key"),
    [
        pytest.param(reader, table, whole, key, id=f"{reader.__name__}-{table}-{key}")
        for reader, tables in (
            (read_plan, PLAN_TABLES), (read_matrix, MATRIX_TABLES), (read_lab, LAB_TABLES),
        )
        for table, (model, whole) in tables.items()
        for key, field in model.model_fields.items() if field.is_required()
    ],
)  # fmt: skip
def test_a_missing_key_is_told_in_our_words(tmp_path, reader, table, whole, key):
    rest = {name: value for name, value in whole.items() if name != key}
    text = refusal(reader, tmp_path / "file.toml", table, rest)
    assert key in text
    assert not LIBRARYS.search(text.partition(": ")[2])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("x", ["function: an index, or the name of a VF such as 0.vf1, is needed, not 'x'"]),
        (-1, ["function: at least 0 is needed, not -1"]),
        ([0, 600], ["function[2]: less than 512 is needed, not 600"]),
        (["0.vf1", "y"], ["function[2]: an index, or the name of a VF such as 0.vf1, is needed"]),
    ],
)
def test_a_mistake_within_a_list_is_no_mistake_of_the_list(given, why):
    """The list is one of several possible types, of which the others have mistakes at its place."""
    text = tomli_w.dumps({"rule": [{**RULE, "function": given}]})
    with pytest.raises(PlanError) as caught:
        load(text, "plan.toml")
    lines = str(caught.value).splitlines()
    assert len(lines) == len(why)
    assert all(words in line for line, words in zip(lines, why, strict=True))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        ([True, "a", 1.5], "[true, 'a', 1.5]"),
        (date(2026, 1, 2), "2026-01-02"),
        ([{"a": True}, {}], "[{...}, {}]"),
        ([[[[[1]]]], []], "[[[[[...]]]], []]"),
        ({}, "an empty table"),
        ("x" * 99, f"'{'x' * 59}..."),
        ([7] * 99, f"[{'7, ' * 19}7,..."),
    ],
)
def test_a_given_value_is_told_as_toml_has_it(value, text):
    assert given_text(value) == text
