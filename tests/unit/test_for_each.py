"""The helper that makes one test of many cases."""

from __future__ import annotations

import pytest
from helpers.each import for_each


def test_every_case_is_checked():
    seen = []
    for_each({"one": 1, "two": 2})(seen.append)()
    assert seen == [1, 2]


def test_a_failure_names_its_case():
    with pytest.raises(ZeroDivisionError) as caught:
        for_each({"one": 1, "none": 0})(lambda number: 1 // number)()
    assert caught.value.__notes__ == ["case none"]


def test_no_case_at_all_is_a_failure():
    with pytest.raises(AssertionError):
        for_each({})(lambda case: None)()
