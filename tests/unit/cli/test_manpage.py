"""The manual page has every command and option, and completion knows them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import emu
from emu.cli.main import main
from emu.cli.manpage import page

STORED = Path(emu.__file__).parents[1] / "share" / "man" / "man1" / "mlx5emu.1"


def commands(group=main, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("text", [page(), STORED.read_text()], ids=["made", "stored"])
def test_everything_is_in_the_page(text):
    """scripts/gen-man-page writes it."""
    plain = text.replace("\\-", "-")
    for path, command in commands():
        if command.hidden:
            continue
        assert f".SS {' '.join(path)}" in plain
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in plain, (path, option.opts)


def test_every_command_says_what_it_is_for():
    for path, command in commands():
        assert command.help, path
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help or option.metavar or option.show_default, (path, option.opts)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for(shell):
    environ = {"_MLX5EMU_COMPLETE": f"{shell}_source"}
    result = CliRunner().invoke(main, [], env=environ, prog_name="mlx5emu")
    assert "mlx5emu" in result.output
    environ = {"_MLX5EMU_COMPLETE": "bash_complete", "COMP_WORDS": "mlx5emu fau", "COMP_CWORD": "1"}
    result = CliRunner().invoke(main, [], env=environ, prog_name="mlx5emu")
    assert "fault" in result.output
