"""The guests that tests get by the plugin's options and marker."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from emu import pytest_plugin


class Config:
    """The command line of a run."""

    def __init__(self, **given):
        self._given = given

    def getoption(self, name):
        name = name.removeprefix("--mlx5-").replace("-", "_")
        return self._given.get(name, [] if name in ("device", "package", "suite") else None)


@pytest.fixture
def options(tmp_path):
    """The options of a test with markers, in a run with options."""

    def make(*marks, **given):
        node = SimpleNamespace(iter_markers=lambda name: marks)
        request = SimpleNamespace(config=Config(**given), node=node)
        directory = SimpleNamespace(getbasetemp=lambda: tmp_path)
        return pytest_plugin._options(request, None, directory)[0]

    return make


def test_packages_by_option_and_by_marker(options):
    mark = pytest.mark.mlx5(packages=["bc"]).mark
    assert options().packages == ()
    assert options(package=["fio", "gdb"]).packages == ("fio", "gdb")
    assert options(mark, package=["fio"]).packages == ("bc",)


def test_traces_of_guests_with_many_packages(options):
    """Their files have names that a file system takes, and each guest its own."""
    names = [f"libsomething-with-a-long-name{number}" for number in range(12)]
    one, two = options(package=names), options(package=names[:-1])
    assert one.trace != two.trace
    assert one.trace.parent.is_dir()


TESTS = """
import pytest

def test_good(): pass

@pytest.mark.parametrize("number", [1])
def test_bad(number): assert number == 2, "two # of them"

@pytest.mark.skip(reason="no device")
def test_skipped(): pass

@pytest.mark.xfail(reason="later", strict=True)
def test_expected(): raise ValueError

@pytest.fixture
def broken():
    yield
    raise RuntimeError("it stays up")

def test_broken(broken): pass
"""


def run_pytest(directory, *words):
    (directory / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, cwd=directory, env=environ, capture_output=True, text=True, check=False
    )


def test_results_as_tap(tmp_path):
    done = run_pytest(tmp_path, "--mlx5-tap", "new/folder/results.tap")
    assert done.returncode == 1
    lines = (tmp_path / "new/folder/results.tap").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "TAP version 13",
        "1..5",
        "ok 1 test_it.py: test_good",
        "not ok 2 test_it.py: test_bad[1]",
        "ok 3 test_it.py: test_skipped # SKIP no device",
        "ok 4 test_it.py: test_expected # SKIP expected to fail: later",
        "not ok 5 test_it.py: test_broken",
    ]
    assert any("two # of them" in line for line in lines)
    assert any("it stays up" in line for line in lines)


def test_a_tap_file_that_cannot_be_written_is_told_before_the_tests(tmp_path):
    done = run_pytest(tmp_path, "--mlx5-tap", "test_it.py/such")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--mlx5-tap test_it.py/such: " in done.stderr
    full = run_pytest(tmp_path, "--mlx5-tap", "/dev/full")
    assert "--mlx5-tap /dev/full: No space left" in full.stdout + full.stderr
    assert full.returncode == pytest.ExitCode.USAGE_ERROR
