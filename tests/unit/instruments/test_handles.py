"""``mlx5_faults.load`` takes a plan as users name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.host.user_error import UserError
from emu.instruments.testing import handles

PLAN = '[[rule]]\npoint = "irq"\naction = "drop"\n'


class Faults(handles.Faults):
    """Keeps the text of the plan that a server would get."""

    def __init__(self):
        self.text = None

    def load_plan(self, text):
        self.text = text
        return text.count("[[rule]]")


@pytest.fixture
def faults(tmp_path, monkeypatch):
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return Faults()


@pytest.mark.parametrize("plan", ["plan.toml", Path("plan.toml"), PLAN])
def test_a_file_or_a_text(faults, plan):
    assert faults.load(plan) == 1
    assert faults.text == PLAN


def test_an_example(faults):
    assert faults.load("@link-flaps") == 1


@pytest.mark.parametrize("text", ["", "[[rule]]"])
def test_what_is_a_text_in_any_case(faults, text):
    faults.load(text)
    assert faults.text == text


def test_mistakes(faults):
    with pytest.raises(FileNotFoundError):
        faults.load("plam.toml")
    with pytest.raises(UserError, match="link-flaps"):
        faults.load("@link-flap")
