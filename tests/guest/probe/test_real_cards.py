"""What tools show of the adapters, as examples/real-cards has it beside what real cards show."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

PROGRAM = Path(__file__).parents[3] / "examples" / "real-cards" / "compare.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("real_cards_example", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_as_it_was_written_down(lab, example):
    assert example.measure() == tomllib.loads(example.HERE.read_text())
