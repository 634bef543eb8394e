"""The words of a command line."""

from __future__ import annotations

import click
import pytest

from emu.cli.shared.words import command_words, table_of
from emu.host.user_error import UserError


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (("--", "ls", "-l"), ("ls", "-l")),
        (("ls", "--", "-l"), ("ls", "--", "-l")),
        (("--", "--"), ("--",)),
        ((), ()),
    ],
)
def test_dashes_before_a_command(given, command):
    assert command_words(given, "NAME") == command


def test_an_option_that_comes_too_late():
    with pytest.raises(click.UsageError, match="-t: options come before NAME"):
        command_words(("-t", "ls"), "NAME")


@pytest.mark.parametrize("words", [("",), ("--", "", "-l")])
def test_a_command_without_a_name(words):
    with pytest.raises(click.UsageError, match="COMMAND begins with an empty word"):
        command_words(words, "NAME")


@pytest.mark.hostile
@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000])
def test_a_value_that_no_parser_takes_is_text(value):
    assert table_of((f"loss={value}",), "link") == {"loss": value}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("value", "why"),
    [("0x" + "f" * 5000, "a number is too large"), ("[" * 20 + "]" * 20, "nested too deep")],
)
def test_a_value_that_no_plan_has_is_refused(value, why):
    with pytest.raises(UserError, match=f"not a link: {why}"):
        table_of((f"loss={value}",), "link")
