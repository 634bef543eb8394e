"""Every command in the pages of examples/ is run by a test, and is one that there is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise

import click
import pytest
from helpers.files.readme_commands import (
    ENDS,
    EXAMPLES,
    PROGRAMS,
    ROOT,
    commands,
    inline,
    pages,
    words,
)
from helpers.files.recipes import commands_of

from emu.cli.main import main

LINES = [(page, line) for page, text in pages().items() for line in commands(text)]


def test_every_line_is_run_by_the_guest_test():
    """And nothing else is in its table."""
    assert [line for _, line in LINES] == [line for page in pages() for line in ENDS.get(page, {})]
    assert len(LINES) >= 15


def test_a_command_fits_a_terminal():
    """``mlx5emu guide`` shows the pages of examples/ in 80 columns."""
    lines = [line for text in pages().values() for line in text.splitlines()]
    typed = [line for line in lines if line.startswith(tuple(f"{one} " for one in PROGRAMS))]
    assert len(typed) >= 15
    assert [line for line in typed if len(line) > 80] == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where somebody types the commands: beside examples/, with what an earlier line has made.

    The lines about the switch and virtual functions are typed in copies of their folders.
    """
    (tmp_path / "examples").symlink_to(EXAMPLES)
    (tmp_path / "switch.toml").symlink_to(EXAMPLES / "switch" / "switch.toml")
    (tmp_path / "ovs.toml").symlink_to(EXAMPLES / "sriov" / "ovs.toml")
    (tmp_path / "record").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(arguments):
    """Take the words as the command line does, without doing anything. Raises ClickException."""
    command, context = main, main.make_context("mlx5emu", list(arguments))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_line_is_a_command_with_options_and_files_that_there_are(page, line, folder):
    program, *arguments = words(line)
    assert program in PROGRAMS
    if program == "mlx5emu":
        parsed(arguments)
        return
    shutil.copytree(EXAMPLES / page, folder / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *arguments],
        cwd=folder / "tests", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", [line for text in pages().values() for line in inline(text)])
def test_a_command_in_the_text_is_one_that_there_is(line):
    program, *arguments = words(line)
    if program == "mlx5emu":
        names = arguments[: 1 if len(arguments) < 2 or arguments[1].startswith("-") else 2]
        command = main
        for name in names:
            if isinstance(command, click.Group):
                command = command.get_command(None, name)
        assert command is not None
    for word in arguments:
        assert "/" not in word or word.startswith("/") or (ROOT / word).exists()


@pytest.mark.parametrize(
    ("job", "made", "by", "how"),
    [
        ("github-workflow.yml", "mlx5emu-results", ROOT / "action.yml", 'mkdir -p "$RESULTS"'),
        ("gitlab-ci.yml", "results", EXAMPLES / "tools" / "gitlab-ci.yml", "mkdir -p results"),
    ],
)
def test_commands_of_jobs_run_in_a_fresh_checkout(job, made, by, how, tmp_path, monkeypatch):
    """Where no folder is there but the one for results, which the job makes."""
    assert how in by.read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / made).mkdir()
    lines = commands_of(job)
    assert lines
    for line in lines:
        parsed(line[1:])
        for option, word in pairwise(line):
            assert option != "--junit" or (tmp_path / word).parent.is_dir()


def test_a_line_that_is_no_command_is_noticed(folder):
    for wrong in ("run --fault examples/faults/bus-gone-and-back.toml -- true", "ran -- true"):
        with pytest.raises(click.ClickException):
            parsed(words(wrong))
    with pytest.raises(click.ClickException):
        parsed(words("run --faults examples/faults/no-such.toml -- true"))


def test_every_example_of_the_table_is_run_by_some_test():
    """By its name, or its folder's, which no test would have for another reason."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("**/*.py"))
    named = re.findall(r"^\| \[[^\]]*\]\(([^)]+)\)", pages()["."], re.M)
    assert len(named) >= 20
    folders = {name for name in named if f'"{name.partition("/")[0]}"' in tests}
    missing = [name for name in named if name.rpartition("/")[2] not in tests]
    assert [name for name in missing if name not in folders] == []
