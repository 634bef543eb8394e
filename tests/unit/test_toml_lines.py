"""The lines of a TOML text's places."""

import pytest

from emu.toml_lines import TomlLines

TEXT = """\
name = "x"
"quoted.key" = 1
[guest]
kernel.image = "a"
[[rule]]
point = "cmd"

[[rule]]
 point = "eqe"
[rule.set]
field.deep = 1
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("name",), 1),
        (("quoted", "key"), 2),
        (("guest",), 3),
        (("guest", "kernel"), 4),
        (("guest", "kernel", "image"), 4),
        (("guest", "unknown"), 3),
        (("rule", 0), 5),
        (("rule", 0, "point"), 6),
        (("rule", 1, "point"), 9),
        (("rule", 1, "set"), 10),
        (("rule", 2), 0),
        ((), 0),
    ],
)
def test_a_place_has_a_line(place, line):
    assert TomlLines(TEXT).of(place) == line


def test_a_very_deep_key_costs_no_more_than_its_first_parts():
    text = "a." * 100_000 + "a = 1"
    assert TomlLines(text).of(("a",) * 200_000) == 1
