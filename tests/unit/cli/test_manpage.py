"""The manual page has every command and option, and completion knows them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from emu.cli.guide import index
from emu.cli.main import main
from emu.cli.manpage import page

SHARE = Path(__file__).parents[3] / "share"
STORED = SHARE / "man" / "man1" / "mlx5emu.1"


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


def test_every_variable_is_in_the_page_and_in_the_guide():
    """Except the one that a campaign sets for its own processes."""
    sources = (SHARE.parent / "emu").rglob("*.py")
    named = {name for path in sources for name in re.findall(r"MLX5EMU_[A-Z_]+", path.read_text())}
    guide = (SHARE / "guide" / "using.md").read_text()
    for name in named - {"MLX5EMU_COMPLETE", "MLX5EMU_OBSERVED"}:
        assert name in page(), name
        assert name in guide, name


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


def test_the_guide_s_index_is_current():
    """scripts/gen-man-page writes it."""
    assert (SHARE / "guide" / "README.md").read_text() == index(main, SHARE / "guide")


def test_a_new_page_and_the_commands_in_it_are_in_the_index(tmp_path):
    for name, text in {"README.md": "old", "x.md": "# Walls\n\nmlx5emu ps\n"}.items():
        (tmp_path / name).write_text(text)
    made = index(main, tmp_path)
    assert "- [Walls](x.md)" in made
    rows = {line.split("`")[1]: line for line in made.splitlines() if line.startswith("| `")}
    assert rows["ps"].endswith("[x](x.md) |")
    assert "x.md" not in rows["run"]


def test_a_list_of_properties_keeps_its_lines():
    lines = page().splitlines()
    at = lines.index(next(line for line in lines if line.startswith("loss=1 duplicate=1  ")))
    begin = max(index for index, line in enumerate(lines[:at]) if line == ".nf")
    assert lines[begin + 1].startswith("delay=10ms")
    assert ".fi" in lines[at : at + 10]
