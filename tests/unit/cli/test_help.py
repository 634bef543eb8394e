"""Help has named groups, short lines that are not cut, and an example for each command."""

from __future__ import annotations

import inspect
import itertools
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from emu.cli import commands as packages
from emu.cli.main import main
from emu.cli.options.groups import TitledGroup, grouped_option
from emu.cli.shared.files import Existing
from emu.cli.shared.params import NearChoice, RealNumber, WholeNumber

MAX_WORDS = 10
MAX_OPTIONS = 12
PRONOUN = re.compile(r"(?:^|[.!?]\s+)(It|What|Who|There|So|They|These|This|That|Nothing)\b")


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


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_lines_break_between_words_that_do_not_belong_together(path, command):
    lines = help_of(*path).splitlines()
    assert max(map(len, lines)) <= 80
    for line, after in itertools.pairwise([*lines, ""]):
        assert line.count("[") == line.count("]"), line
        assert line.count("`") % 2 == 0, line
        assert not re.search(r"\w-$", line), line
        assert not (line.startswith("  Example: ") and after.strip()), line


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_sentences_of_help_name_their_subject(path, command):
    texts = [inspect.cleandoc(command.help)]
    texts += [one.help for one in command.params if getattr(one, "help", None)]
    for text in texts:
        assert not PRONOUN.search(text), text


def options():
    for path, command in commands():
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                yield pytest.param(one, id=f"{' '.join(path)} {one.opts[-1]}")


@pytest.mark.parametrize("option", [*options()])
def test_an_option_says_its_unit(option):
    if not isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        return
    assert isinstance(option.type, WholeNumber | RealNumber)  # limits and mistakes in words
    assert option.metavar, "a placeholder shorter than the type"
    unit = {"S": r"seconds?\b|\bS\b", "MIB": "MiB"}.get(option.metavar, "")
    assert re.search(unit, option.help, re.IGNORECASE)


def test_no_choice_or_path_has_clicks_mistakes():
    """Similar names are known to NearChoice and Existing alone."""
    for path, command in commands():
        for one in command.params:
            if isinstance(one.type, click.Choice):
                assert isinstance(one.type, NearChoice), (path, one.name)
            if isinstance(one.type, click.Path) and one.type.exists:
                assert isinstance(one.type, Existing), (path, one.name)


@pytest.mark.parametrize(
    ("number", "text", "words"),
    [
        (WholeNumber(1, 9), "0", "1 to 9 is needed, not 0"),
        (WholeNumber(1), "0", "at least 1 is needed, not 0"),
        (WholeNumber(max=9), "10", "at most 9 is needed, not 10"),
        (WholeNumber(1), "1.5", "a whole number is needed, not '1.5'"),
        (WholeNumber(0, (1 << 64) - 1), "-1", "0 to 2^64 - 1 is needed, not -1"),
        (RealNumber(0, min_open=True), "0", "more than 0 is needed, not 0"),
        (RealNumber(0, 5, min_open=True), "6", "more than 0 to 5 is needed, not 6"),
        (RealNumber(0.1), "nan", "a number is needed, not 'nan'"),
        (RealNumber(0), "inf", "a number is needed, not 'inf'"),
        (RealNumber(0.1), "long", "a number is needed, not 'long'"),
    ],
)
def test_a_number_outside_of_limits_is_told_in_words(number, text, words):
    with pytest.raises(click.BadParameter) as caught:
        number.convert(text, None, None)
    assert caught.value.message == words


def test_replays_show_the_defaults_of_the_record():
    text = CliRunner().invoke(main, ["replay", "--help"]).output
    about = {row.split()[0]: row for row in " ".join(text.split()).split(" --")[1:]}
    for option in ("suite", "device", "kernel", "share", "memory"):
        assert about[option].count("[default:") == 1
        assert "[default: as in RECORD]" in about[option]
    assert "[default: 180]" in about["boot-timeout"]


@pytest.mark.parametrize("name", ["run", "up", "boot", "rdma-tests", "serve", "replay"])
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
