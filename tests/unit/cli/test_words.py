"""The words of a command line."""

from __future__ import annotations

import click
import pytest

from emu.cli.shared.words import command_words


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
