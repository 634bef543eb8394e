"""Recipes of guest images, and their keys."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from emu.guest.errors import LabError
from emu.guest.recipe import SUITES, recipe


def test_a_key_stays_the_same():
    assert recipe("trixie").key == recipe("trixie").key
    assert len({recipe(suite).key for suite in SUITES}) == len(SUITES)
    assert recipe("sid").name == f"sid-{recipe('sid').key}"


@pytest.mark.parametrize("field", [field.name for field in fields(recipe("sid"))])
def test_any_change_gives_another_key(field):
    before = recipe("sid")
    value = getattr(before, field)
    after = replace(before, **{field: (*value, "x") if isinstance(value, tuple) else value + "x"})
    assert after.key != before.key


def test_only_sid_may_be_past_its_validity():
    doubtful = [suite for suite in SUITES if "Check-Valid-Until" in str(recipe(suite).apt_options)]
    assert doubtful == ["sid"]


def test_another_suite_is_refused():
    with pytest.raises(LabError, match="'buster': choose one of bookworm, trixie, sid"):
        recipe("buster")


def test_the_last_step_has_its_blanks():
    text = recipe("trixie").finalize
    assert "@IMAGE@" in text
    assert "@SIZE@" in text
