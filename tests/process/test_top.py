"""``mlx5emu top`` on a terminal: ends by a key or Ctrl-C, and leaves the terminal as it was."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.terminal import Terminal

from emu.host.process_identity import module_command

HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
"""What a terminal is told about its cursor."""


@pytest.fixture
def control(tmp_path):
    """The control socket of a server of one function."""
    path = tmp_path / "control"
    words = ["serve", "--socket", tmp_path / "socket", "--control", path]
    with subprocess.Popen(
        [*module_command("emu"), *map(str, words)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as process:
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        yield path
        process.terminate()


@pytest.mark.parametrize(("keys", "status"), [(b"q", 0), (b"xyQ", 0), (b"\x03", 130)])
def test_a_key_ends_it(control, keys, status):
    with Terminal("top", "--control", control, "--interval", "0.1") as terminal:
        terminal.read_until(b"commands/s")
        assert terminal.current() != terminal.settings  # or the key would wait for a new line
        terminal.type(keys)
        assert terminal.status() == status
        assert terminal.current() == terminal.settings
        assert terminal.raw.rindex(SHOWN) > terminal.raw.rindex(HIDDEN)
        assert b"xy" not in terminal.raw  # keys are not echoed
        assert terminal.raw.endswith(b"\n") or terminal.raw.endswith(SHOWN)


def test_a_key_ends_a_long_interval_at_once(control):
    with Terminal("top", "--control", control, "--interval", "3600") as terminal:
        terminal.read_until(HIDDEN)
        terminal.type(b"q")
        assert terminal.status() == 0
        assert terminal.current() == terminal.settings


def piped(control, *words, stdin=subprocess.DEVNULL):
    """``mlx5emu top`` with its output in a pipe."""
    words = ["top", "--control", control, "--interval", "0.1", *words]
    return subprocess.Popen(
        [*module_command("emu"), *map(str, words)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE])
def test_each_interval_is_a_view_in_a_pipe(control, stdin):
    with piped(control, "--times", "2", stdin=stdin) as process:
        said = process.stdout.read()
    assert (process.returncode, said.count("commands/s")) == (0, 2)
    assert said.endswith("\n\n")  # an empty line follows each view


def test_a_reader_of_some_lines_ends_it(control):
    """`mlx5emu top | head`: lines come while the command runs."""
    with piped(control) as process:
        assert "commands/s" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
