"""Pages of the guide with docstrings in place of the comments that the site's Sphinx fills in."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.shared.reference import with_reference
from emu.guests.options import Use, options
from emu.host import shipped


def test_a_page_has_the_members_instead_of_comments():
    shown = CliRunner().invoke(main, ["guide", "python"]).output
    assert "<!--" not in shown
    for line in (
        "- `start()`: ",
        "- `load_plan(text)`: ",
        "- `region(size, **context)`: Register memory of `size` bytes; ",
        "`from emu.guests import Guest`",
    ):
        assert line in shown
    assert not re.search(r"(?<!`)``[a-z]|:class:|:meth:|^::$", shown, re.M)


@pytest.mark.parametrize("page", shipped.pages())
def test_no_other_comment_is_in_a_page(page):
    assert "<!--" not in with_reference(shipped.pages()[page].read_text())


@pytest.mark.parametrize("name", ["emu.guests.None", "emu.none"])
def test_a_name_that_does_not_exist_is_an_error(name):
    with pytest.raises((ImportError, AttributeError)):
        with_reference(f"<!-- autoclass {name} -->")


def test_the_page_has_every_option_of_the_marker():
    sentence = re.search(r"^NAME is (.*?)\.$", shipped.pages()["python"].read_text(), re.M | re.S)
    names = [one.name for one in options() if not one.why_not(Use.PYTEST)]
    assert re.findall(r"`(\w+)`", sentence[1]) == names
