"""examples/findings: its plans, what is said of them, and the page agree."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.server.service.plan_files import read_plan

FOLDER = Path(__file__).parents[4] / "examples" / "findings"
KERNELS = {"6.1", "6.12", "7.2", "7.3"}
FACTS = tomllib.loads((FOLDER / "findings.toml").read_text())


def test_every_plan_is_a_finding():
    names = {path.stem for path in FOLDER.glob("*.toml")} - {"findings", "fixes"}
    assert names == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_a_finding_says_what_it_is(name):
    plan = read_plan(FOLDER / f"{name}.toml")
    fact, page = FACTS[name], (FOLDER / "README.md").read_text()
    assert plan.about
    assert plan.expect is not None
    assert plan.expect.dmesg
    assert set(fact["kernels"]) <= KERNELS
    assert fact["kernels"]
    assert f"]({name}.toml) | {fact['title']} |" in page
