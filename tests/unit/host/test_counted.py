"""Numbers with their units."""

from __future__ import annotations

import pytest

from emu.host.counted import decimal


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (999_949_999, "999.9 MB"),
        (999_999_999, "1.0 GB"),
        (1_500_000_000_000, "1.5 TB"),
        (1_234_000_000_000_000, "1,234.0 TB"),
    ],
)
def test_a_size_has_the_unit_in_which_it_is_below_a_thousand(size, text):
    assert decimal(size) == text
