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

    def getoption(self, name, default=None):
        name = name.removeprefix("--mlx5-").removeprefix("mlx5_").replace("-", "_")
        return self._given.get(name, default)


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
    assert options(packages=["fio", "gdb"]).packages == ("fio", "gdb")
    assert options(mark, packages=["fio"]).packages == ("bc",)


def test_traces_of_guests_with_many_packages(options):
    """Their files have names that a file system takes, and each guest its own."""
    names = [f"libsomething-with-a-long-name{number}" for number in range(12)]
    one, two = options(packages=names), options(packages=names[:-1])
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
    (tmp_path / "folder").mkdir()
    done = run_pytest(tmp_path, "--mlx5-tap", "folder/results.tap")
    assert done.returncode == 1
    lines = (tmp_path / "folder/results.tap").read_text().splitlines()
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
    missing = run_pytest(tmp_path, "--mlx5-tap", "new/results.tap")
    assert "--mlx5-tap new/results.tap: no directory new" in missing.stderr
    assert not (tmp_path / "new").exists()
    full = run_pytest(tmp_path, "--mlx5-tap", "/dev/full")
    assert "--mlx5-tap /dev/full: No space left" in full.stdout + full.stderr
    assert full.returncode == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--mlx5-kernel", "/usr/shar"], "--mlx5-kernel: no kernel /usr/shar; near it: share"),
        (["--mlx5-kernel", "/etc/passwd"], "--mlx5-kernel: /etc/passwd is not a Linux bzImage"),
        (["--mlx5-share", "/usr/shar"], "--mlx5-share: no directory /usr/shar; near it: share"),
        (["--mlx5-share", "/etc/passwd"], "--mlx5-share: /etc/passwd is no directory"),
        (["--mlx5-out", "/etc/passwd"], "--mlx5-out: /etc/passwd cannot be made: File exists"),
        (["--mlx5-suite", "sid", "--mlx5-suite", "trixi"], "--mlx5-suite: 'trixi' is not one of"),
        (["--mlx5-device", "connectx6d"], "--mlx5-device: unknown model 'connectx6d'; near it"),
        (["--mlx5-net", "usr"], "--mlx5-net: 'usr': it is user, stream=PATH or tap=NAME"),
        (["--mlx5-transport", "vfio"], "--mlx5-transport: no transport 'vfio'; near it"),
    ],
)
def test_an_option_that_no_guest_can_have_is_told_before_the_tests(words, why, tmp_path):
    done = run_pytest(tmp_path, *words)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {why}" in done.stderr
    assert "test_it.py" not in done.stdout


GUESTS = """
from contextlib import contextmanager
import emu.server.control.client, emu.guests, emu.instruments.outcome.objects

class Guest:
    is_running = is_emulated = True
    control_socket = None
    console = ""

    def __init__(self, options):
        self.options = options
        self.log = ["[ 0.1] Linux version 6.12"]
        if "noisy" in options.kernel_arguments:
            self.says("WARNING: CPU: 0 PID: 1 at a.c:1 mlx5_boot+0x1/0x2 [mlx5_core]")

    def says(self, line):
        self.log.append(f"[ {len(self.log)}.5] {line}")

    def stop(self):
        class Stopped(Guest):
            @property
            def console(self):
                raise emu.guests.GuestError("the guest is not running")

            def dmesg(self):
                raise emu.guests.GuestError("the guest is not running")

        Pool.guests.clear()
        self.__class__ = Stopped

    def dmesg(self):
        return "\\n".join(self.log)

class Pool:
    guests = {}

    def get(self, options):
        if options not in self.guests:
            self.guests[options] = Guest(options)
        return self.guests[options]

    def close(self):
        pass

class Client:
    pds = 3

    def __init__(self, path): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def census(self): return {"pd": Client.pds}

emu.guests.Guest, emu.guests.GuestPool, emu.server.control.client.Client = Guest, Pool, Client
emu.instruments.outcome.objects._INTERVAL = 0
"""
NOISY_TESTS = """
import pytest
from conftest import Client

WARNING = "WARNING: CPU: 0 PID: 112 at a.c:1 mlx5_w+0x1/0x2 [mlx5_core]"
BUG = "kernel BUG at a.c:1!\\n[ 1.0] RIP: 0010:mlx5_x+0x1/0x2 [mlx5_core]"

def test_quiet(mlx5_guest): mlx5_guest.says("mlx5_core 0000:01:00.0: health recovery failed")

def test_warns(mlx5_guest): mlx5_guest.says(WARNING)

def test_after_it(mlx5_guest): pass

def test_bug(mlx5_guest): mlx5_guest.says(BUG)

@pytest.mark.mlx5_allow("WARNING in mlx5_?")
def test_allowed(mlx5_guest): mlx5_guest.says(WARNING)

@pytest.mark.mlx5_allow("WARNING in mlx5_?")
def test_other_than_allowed(mlx5_guest): mlx5_guest.says(BUG)

@pytest.mark.mlx5_allow
def test_all_allowed(mlx5_guest): mlx5_guest.says(BUG)

@pytest.mark.mlx5(kernel_arguments=("noisy",))
def test_boot(mlx5_guest): pass

@pytest.mark.mlx5(kernel_arguments=("noisy",))
def test_same_guest(mlx5_guest): pass

def test_stops_it(mlx5_guest):
    mlx5_guest.stop()

def test_leak(mlx5_guest, mlx5_leaks):
    def turn(): Client.pds += 1
    mlx5_leaks.check(turn)

def test_no_leak(mlx5_guest, mlx5_leaks): mlx5_leaks.check(lambda: None)

def test_fails_by_itself(mlx5_guest):
    mlx5_guest.says(WARNING)
    assert not "its own reason"
"""
BAD = ["test_bug", "test_other_than_allowed", "test_leak", "test_fails_by_itself"]


@pytest.mark.parametrize(
    ("words", "failed"),
    [((), [*BAD, "test_warns", "test_boot"]), (("--mlx5-fail-on", "error"), BAD),
     (("--mlx5-fail-on", "never"), ["test_leak", "test_fails_by_itself"])],
)  # fmt: skip
def test_what_the_kernel_says_fails_a_test(tmp_path, words, failed):
    """But for the driver's own messages, what was there before, and what is allowed."""
    (tmp_path / "conftest.py").write_text(GUESTS)
    (tmp_path / "test_it.py").write_text(NOISY_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "--mlx5-no-trace", "--strict-markers", *words], cwd=tmp_path, env=environ,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert {line[1].partition("::")[2] for line in lines} == set(failed), done.stdout
    assert "objects left in the device: pd: pd: 2 more in 2 turns (4, 5, 6)" in done.stdout
    assert "its own reason" in done.stdout
    assert "warning: WARNING in mlx5_w" in done.stdout  # a section of that one's report
