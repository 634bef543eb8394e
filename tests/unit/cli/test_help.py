"""Help has named groups, short lines that are not cut, and an example for each command."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from emu.cli import commands as packages
from emu.cli.main import main
from emu.cli.options.groups import TitledGroup, grouped_option

MAX_WORDS = 10
MAX_OPTIONS = 12


def commands(group=main, path=()):
    """Yield the words and the command of each visible command, groups included."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


def help_of(*path):
    done = CliRunner().invoke(main, [*path, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.output


def groups(text):
    """Return the number of options below each heading."""
    counts, title = {}, ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][\w -]*:", line):
            title = line[:-1]
        elif title and re.match(r"  -", line):
            counts[title] = counts.get(title, 0) + 1
    return counts


def test_commands_are_in_sections():
    lines = help_of().splitlines()
    titles = ["Guests:", "Emulated functions:", "Trials:", "Set-up:"]
    assert [line for line in lines if line in titles] == titles
    shown = {line.split()[0] for line in lines[lines.index("Guests:") :] if line[:2] == "  "}
    assert shown == set(packages.modules())


@pytest.mark.parametrize("path", [(), *(path for path, command in commands()
                                         if isinstance(command, click.Group))])  # fmt: skip
def test_no_line_is_cut(path):
    text = help_of(*path)
    assert not re.search(r"\.\.\.$", text.partition("\n")[2], re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_short_help_is_short(path, command):
    assert command.short_help
    assert len(command.short_help.split()) <= MAX_WORDS
    assert command.get_short_help_str(80) == command.short_help


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_help_ends_with_an_example(path, command):
    *_, last = inspect.cleandoc(command.help).splitlines()
    assert last.startswith("Example: ")
    assert f"mlx5emu {' '.join(path)}" in last


@pytest.mark.parametrize("name", ["run", "up", "boot", "suite", "serve", "replay"])
def test_options_are_in_named_groups(name):
    counts = groups(help_of(name))
    assert len(counts) >= 3
    assert max(counts.values()) <= MAX_OPTIONS
    assert "Faults and traces" in counts


def test_groups_of_one_title_are_one_group():
    assert TitledGroup("a") == TitledGroup("a") != TitledGroup("b")
    assert len({TitledGroup("a"), TitledGroup("a")}) == 1


def test_an_option_without_a_group_is_among_the_others():
    @grouped_option("", "--x")
    def function():
        pass

    (option,) = vars(function)["__click_params__"]
    assert option.group is None


def test_cloup_is_imported_for_help_only():
    code = (
        "import sys; from emu.cli.main import main; main(['--version'], standalone_mode=False); "
        "assert 'cloup' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
