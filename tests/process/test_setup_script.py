"""scripts/setup: what it installs, and when; its Python and its programs only note what they do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"
PYTHON = """#!/bin/sh
case "$1 $2" in
    "-m venv") echo venv >> said; rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"
        ln -s python "$4/bin/mlx5emu" ;;
    "doctor --compile") echo compile >> said ;;
    "-m pip")
        for word; do last=$word; done
        echo "pip $last" >> said; [ ! -e broken ] ;;
esac
"""


@pytest.fixture
def setup(tmp_path):
    """Runs the script in a project of its own; returns what it did, and how it ended."""
    programs = tmp_path / "bin"
    for directory in ("bin", "scripts"):
        (tmp_path / directory).mkdir()
    shutil.copy(SETUP, tmp_path / "scripts")
    (tmp_path / "pyproject.toml").touch()
    names = ("mmdebstrap", "mke2fs", "passt", "depmod", "newuidmap", "cc")
    texts = dict.fromkeys(names, "#!/bin/sh\n")
    for name, text in {**texts, "python3": PYTHON}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}"}
    said = tmp_path / "said"

    def call(*words):
        said.write_text("")
        done = subprocess.run(["scripts/setup", *words], cwd=tmp_path, env=environ, check=False)
        return said.read_text().splitlines(), done.returncode

    return call


def test_a_user_gets_the_package_alone_and_only_once(setup):
    assert setup() == (["venv", "pip ."], 0)
    assert setup() == ([], 0)


def test_an_extra_is_added_to_what_is_there(setup):
    setup()
    assert setup("test") == (["pip .[test]"], 0)
    assert setup("test") == setup() == ([], 0)
    assert setup("dev") == (["pip .[dev]"], 0)


def test_what_the_project_needs_now_is_installed_again(setup, tmp_path):
    setup("test")
    later = (tmp_path / ".venv" / "setup-is-done-test").stat().st_mtime + 10
    os.utime(tmp_path / "pyproject.toml", (later, later))
    assert setup("test") == (["pip .[test]"], 0)


def test_what_was_interrupted_begins_anew(setup, tmp_path):
    (tmp_path / "broken").touch()
    assert setup("test") == (["venv", "pip .[test]"], 1)
    (tmp_path / "broken").unlink()
    assert setup("test") == (["venv", "pip .[test]"], 0)
    (tmp_path / ".venv" / "bin" / "python").unlink()  # the system's Python has gone
    assert setup("test") == (["venv", "pip .[test]"], 0)


def test_the_device_is_compiled_into_the_cache_each_time_that_it_is_asked_for(setup):
    assert setup("compiled") == (["venv", "pip .[compiled]", "compile"], 0)
    assert setup("compiled") == (["compile"], 0)
    assert setup() == ([], 0)
