"""The guests that tests get by the plugin's options and marker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from emu.instruments.testing.guest_options import options_of


class Config:
    """The command line of a run."""

    def __init__(self, **given):
        self._given = given
        self.invocation_params = SimpleNamespace(dir=Path.cwd())

    def getoption(self, name, default=None):
        name = name.removeprefix("--mlx5-").removeprefix("mlx5_").replace("-", "_")
        return self._given.get(name, default)


@pytest.fixture
def options(tmp_path):
    """The options of a test with markers, in a run with options."""

    def make(*marks, **given):
        item = SimpleNamespace(iter_markers=lambda name: marks, config=Config(**given))
        return options_of(item, None, None, tmp_path)[0]

    return make


def test_packages_by_option_and_by_marker(options):
    mark = pytest.mark.mlx5(packages=["bc"]).mark
    assert options().packages == ()
    assert options(packages=["fio", "gdb"]).packages == ("fio", "gdb")
    assert options(mark, packages=["fio"]).packages == ("bc",)


def test_a_marker_has_the_keys_of_files_and_the_names_of_fields(options):
    by_key = pytest.mark.mlx5(memory=1024, accel="tcg", kernel_args=["a"], qemu_args=["-s"]).mark
    by_field = pytest.mark.mlx5(
        memory_mib=1024, accelerator="tcg", kernel_arguments=["a"], qemu_arguments=["-s"]
    ).mark
    one, two = options(by_key), options(by_field)
    assert (one.memory_mib, one.accelerator) == (1024, "tcg") == (two.memory_mib, two.accelerator)
    assert (one.kernel_arguments, one.qemu_arguments) == (("a",), ("-s",))
    assert (two.kernel_arguments, two.qemu_arguments) == (("a",), ("-s",))


def test_commands_find_the_files_beside_the_tests(options, tmp_path, monkeypatch):
    """``mlx5_guest.run("./my-test")``: the working directory is shared, as for `mlx5emu run`."""
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    made = options()
    assert (made.share, made.share_writable, made.share_optional) == (tmp_path, False, True)
    for chosen in (options(share="other"), options(pytest.mark.mlx5(share="other").mark)):
        assert (chosen.share.resolve(), chosen.share_optional) == (other, False)
    for none in (options(no_share=True), options(pytest.mark.mlx5(share=None).mark)):
        assert none.share is None


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
        (["--mlx5-share", "/etc/passwd"], "--mlx5-share: /etc/passwd is not a directory"),
        (["--mlx5-out", "/etc/passwd"], "--mlx5-out: /etc/passwd cannot be made: File exists"),
        (["--mlx5-suite", "sid", "--mlx5-suite", "trixi"], "--mlx5-suite: 'trixi' is not one of"),
        (["--mlx5-device", "connectx6d"], "--mlx5-device: unknown model 'connectx6d'; near it"),
        (["--mlx5-net", "usr"], "--mlx5-net: 'usr': use user, stream=PATH or tap=NAME"),
        (["--mlx5-transport", "vfio"], "--mlx5-transport: no transport 'vfio'; known: vfio-user"),
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
    log_files = {"console": "/runs/console.log", "server": "/runs/server.log"}

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

    def get(self, options, *, progress, on_wait):
        if options not in self.guests:
            self.guests[options] = Guest(options)
            self.boot(progress)
        return self.guests[options]

    def boot(self, progress): pass

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
    assert "objects left in the device: pd: pd: 2 more in 2 repetitions (4, 5, 6)" in done.stdout
    assert "its own reason" in done.stdout
    assert "warning: WARNING in mlx5_w" in done.stdout  # a section of that one's report


def run_tests(directory, tests, *words, conftest=""):
    """Run tests with guests that are not there; the process, with its output as one text."""
    (directory / "conftest.py").write_text(GUESTS + conftest)
    (directory / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, cwd=directory, env=environ, text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


MARKS = """
import pytest

@pytest.mark.mlx5(device="connectx6")
def test_key(mlx5_guest): pass

@pytest.mark.mlx5(devices=["connectx9"])
def test_model(mlx5_guest): pass

@pytest.mark.mlx5(suite="trixi")
def test_suite(mlx5_guest): pass

@pytest.mark.mlx5("connectx6")
def test_position(mlx5_guest): pass

@pytest.mark.mlx5(devices="connectx6dx")
def test_string(mlx5_guest): pass

@pytest.mark.mlx5(memory="1024")
def test_number(mlx5_guest): pass

@pytest.mark.mlx5(fresh="no")
def test_fresh(mlx5_guest): pass

@pytest.mark.mlx5_allow(5)
def test_allow(mlx5_guest): pass

@pytest.mark.mlx5_allow(title="WARNING in mlx5_*")
def test_allow_by_name(mlx5_guest): pass
"""


def test_a_mistake_in_a_marker_is_one_line(tmp_path):
    done = run_tests(tmp_path, MARKS)
    assert "9 errors" in done.stdout
    for line in (
        "mark.mlx5: no option 'device' of a guest; near it: devices",
        "mark.mlx5: devices: unknown model 'connectx9'; near it: connectx7",
        "mark.mlx5: suite: 'trixi' is not one of bookworm, trixie, sid; near it: trixie",
        "mark.mlx5 takes options by name, such as devices=['connectx6dx']",
        "mark.mlx5: devices: a list is needed, such as ['connectx6dx']",
        "mark.mlx5: memory: a whole number is needed",
        "mark.mlx5: fresh: true or false is needed",
        "mark.mlx5_allow takes patterns of titles, such as 'WARNING in mlx5_*'",
    ):
        assert f"\n{line}" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


BOOTED = """
def booted(options):
    guest = plain(options)
    for number in range(300): guest.says(f"boot {number}")
    options.trace.write_text("")
    guest.traced("boot", 300)
    return guest

def traced(self, name, count):
    with self.options.trace.open("a") as file:
        for number in range(count):
            event = f'{{"t_ns":{number * 1000},"function":0,"point":"log","text":"{name}{number}"}}'
            print(event, file=file)

plain, Guest.traced = Guest, traced
Guest = booted
"""
TALKING = """
import pytest

@pytest.fixture
def loaded(mlx5_guest):
    mlx5_guest.says("fixture")
    mlx5_guest.traced("fixture", 1)

def test_ls(mlx5_guest, loaded):
    for number in range(60): mlx5_guest.says(f"body {number}")
    mlx5_guest.traced("event", 60)
    assert not "its own reason"

def test_says_nothing(mlx5_guest):
    assert not "its own reason"
"""


def test_a_plain_failure_shows_what_came_during_the_body(tmp_path):
    done = run_tests(tmp_path, TALKING, conftest=BOOTED)
    first, second = done.stdout.split("test_says_nothing ___")
    log = [line for line in first.splitlines() if "] body " in line]
    assert [line.split()[-1] for line in log] == [str(number) for number in range(20, 60)]
    assert "\nno failure in 60 events; they are in the file below\n" in first
    assert " log   event" not in first
    assert not [word for word in ("boot", "fixture") if f"] {word}" in done.stdout]
    assert "console: /runs/console.log" in first
    (path,) = {line.split(": ")[1] for line in first.splitlines() if line.startswith("trace (")}
    assert path.endswith("trace.json")
    assert len(first.splitlines()) < 40 + 35
    assert "body" not in second
    assert "server: /runs/server.log" in second


def test_a_full_report_has_all_since_the_test_began(tmp_path):
    done = run_tests(tmp_path, TALKING, "--mlx5-full", conftest=BOOTED)
    lines = done.stdout.splitlines()
    assert len([line for line in lines if "] boot " in line]) == 300
    assert len([line for line in lines if " log   event" in line]) == 60


@pytest.mark.parametrize(("words", "limit"), [((), "300"), (("--mlx5-timeout", "7"), "7"),
                                              (("--mlx5-timeout", "0"), "None")])  # fmt: skip
def test_commands_of_guests_have_a_time_limit(tmp_path, words, limit):
    hangs = """
from emu.guests import CommandTimeoutError

def test_hangs(mlx5_guest):
    raise CommandTimeoutError(f"sleep: still running after {mlx5_guest.command_timeout} s")
"""
    done = run_tests(tmp_path, hangs, "--mlx5-no-trace", *words)
    assert f"sleep: still running after {limit}" in done.stdout
    assert "To allow more time: --mlx5-timeout" in done.stdout


@pytest.mark.parametrize("word", ["-1", "x", "nan", "inf"])
def test_a_time_limit_that_is_none(tmp_path, word):
    done = run_tests(tmp_path, "", f"--mlx5-timeout={word}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--mlx5-timeout: '{word}'" in done.stdout


FAILS = """
from emu.guests.guest.guest import Result

def test_ls(mlx5_guest):
    Result("ls /nosuch", 2, "", "ls: no such file").check()
"""


def test_a_guests_error_is_told_at_the_line_of_the_test(tmp_path):
    """And not in the code that raises it, unless the whole traceback is asked for."""
    done = run_tests(tmp_path, FAILS, "--mlx5-no-trace")
    assert ">       Result(" in done.stdout
    assert "CommandFailedError: ls /nosuch: status 2: ls: no such file" in done.stdout
    assert "def check" not in done.stdout
    assert "def check" in run_tests(tmp_path, FAILS, "--mlx5-no-trace", "--full-trace").stdout


FAILS_TO_BOOT = """
def boot(self, progress):
    lines = "\\n".join(f"line {number}" for number in range(90))
    raise emu.guests.GuestError("the guest is not up", lines)

Pool.boot = boot
"""


REFUSED = """
from emu.server.control.client import Client, ControlError
from emu.instruments.testing import handles

def refuse(_self, *_, **__):
    raise ControlError("rule.match.uidd: no field of the point cmd")

class Faults(handles.Faults):
    def __init__(self): pass
    _call = refuse

def test_rule(mlx5_guest):
    Faults().add(point="cmd", action="fail", match={"uidd": 3})

def test_plan(mlx5_guest):
    Faults().load("[[rule]]")
"""


def test_a_refused_rule_is_told_at_the_line_of_the_test(tmp_path):
    done = run_tests(tmp_path, REFUSED, "--mlx5-no-trace", conftest="")
    assert done.stdout.count("ControlError: rule.match.uidd: no field of the point cmd\n") >= 2
    assert '>       Faults().add(point="cmd"' in done.stdout
    assert '>       Faults().load("[[rule]]")' in done.stdout
    assert "def add" not in done.stdout
    assert "def load" not in done.stdout


def test_a_guest_that_does_not_come_up_shows_its_console(tmp_path):
    done = run_tests(tmp_path, "def test_it(mlx5_guest): pass", conftest=FAILS_TO_BOOT)
    shown = [line for line in done.stdout.splitlines() if line.startswith("line ")]
    assert (len(shown), shown[-1]) == (40, "line 89")


SLOW_BOOT = """
import threading
from emu.instruments.testing import booting

booting.MIN_SECONDS, booting._TICK_SECONDS = 0, 0.001

def boot(self, progress):
    if progress is None:
        return
    is_shown, write = threading.Event(), progress._write
    # A line that begins; the end of one has no such word.
    progress._write = lambda text, **named: (write(text, **named), named and is_shown.set())
    for step in ("building trixie", booting.BOOTING):
        is_shown.clear()
        progress(step, 0, 0)
        print("captured")
        assert is_shown.wait(60)

Pool.boot = boot
"""
TWO = "def test_one(mlx5_guest): pass\n\ndef test_two(mlx5_guest): assert 0\n"


def test_a_boot_that_takes_long_is_told(tmp_path):
    done = run_tests(tmp_path, TWO, "--mlx5-no-trace", conftest=SLOW_BOOT)
    begin = done.stdout.index("test_it.py")
    assert [" ".join(line.split()) for line in done.stdout[begin:].splitlines()[:5]] == [
        "test_it.py",
        "mlx5: building trixie ... 0 s",
        "mlx5: booting trixie guest ... 0 s",
        ".",
        "test_it.py F [100%]",
    ]
    verbose = run_tests(tmp_path, TWO, "--mlx5-no-trace", "-v", conftest=SLOW_BOOT)
    lines = [line.split(" [")[0].rstrip() for line in verbose.stdout.splitlines()]
    assert "test_it.py::test_one PASSED" in lines
    assert "test_it.py::test_two FAILED" in lines
    assert "mlx5: booting trixie guest ... 0 s" in lines


@pytest.mark.parametrize("words", [("-q",), ("-n", "1")])
def test_a_boot_is_not_told_where_nobody_wants_or_sees_it(tmp_path, words):
    done = run_tests(tmp_path, TWO, "--mlx5-no-trace", *words, conftest=SLOW_BOOT)
    assert "1 failed, 1 passed" in done.stdout
    assert "mlx5: " not in done.stdout


CHAOS = """
import emu.guests, emu.pytest_plugin

class Fresh(Guest):
    def __init__(self, options, progress, on_wait): super().__init__(options)
    def __enter__(self): return self
    def __exit__(self, *_): pass

class Faults:
    def __init__(self, path, watched): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def load_plan(self, text): self.text = text
    def fired(self): return int("ms = 5" in self.text)
    def links(self): return []
    def clear(self): pass

emu.guests.Guest, emu.pytest_plugin.Faults = Fresh, Faults
"""
CHAOS_SET = """
[[failure]]
name = "flap"
about = "The link flaps."
when = [2, 9]
rule = [{ point = "load", action = "link", ms = 5 }]

[[failure]]
name = "lost"
about = "A completion is lost."
only = "ib"
plan = "@completion-lost"
"""
CHAOS_TESTS = """
import pytest

@pytest.mark.mlx5_chaos("set.toml")
def test_each(mlx5_guest, mlx5_failure):
    assert len(mlx5_guest.options.devices) == 2
    assert mlx5_failure.about.endswith(".")

@pytest.mark.mlx5_chaos("set.toml", only="flap", seed=4, repeat=2, link="eth")
def test_seeds(mlx5_guest, mlx5_failure):
    assert mlx5_guest.options.devices == ("connectx6dx-vf,odp=1",) * 2

@pytest.mark.mlx5_chaos("set.toml", only="flap")
@pytest.mark.mlx5(devices=["connectx7"])
def test_own(mlx5_failure, mlx5_guest):
    assert mlx5_guest.options.devices == ("connectx7",)
"""


def test_a_test_runs_for_each_failure_of_a_set(tmp_path):
    (tmp_path / "set.toml").write_text(CHAOS_SET)
    done = run_tests(
        tmp_path, CHAOS_TESTS, "-v", "-rs", "--strict-markers", "--mlx5-no-trace", conftest=CHAOS
    )
    assert "4 passed, 1 skipped" in done.stdout, done.stdout
    for name in ("test_each[flap] PASSED", "test_each[lost] SKIPPED", "test_seeds[flap.4] PASSED",
                 "test_seeds[flap.5] PASSED", "test_own[flap] PASSED"):  # fmt: skip
        assert name in done.stdout
    assert "the test ended before lost struck" in done.stdout


def test_a_marker_of_failures_needs_the_fixture(tmp_path):
    """No failure would strike otherwise, and the test would pass."""
    tests = """
import pytest

@pytest.mark.mlx5_chaos("@verbs")
def test_one(mlx5_guest): pass
"""
    done = run_tests(tmp_path, tests)
    assert "1 error" in done.stdout
    assert "mark.mlx5_chaos needs the fixture mlx5_failure" in done.stdout


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ('"@verb"', "mark.mlx5_chaos: no failure set @verb; near it: @verbs"),
        ('"@verbs", only="link-flop*"', "only='link-flop*' matches no failure"),
        ("seeds=3", "mark.mlx5_chaos: no argument 'seeds'; near it: seed"),
        ('link="ibb"', "mark.mlx5_chaos: link: 'ibb' is not one of ib, eth"),
        ('"@verbs", only=["link-*", "port-dwn"]', "test_it.py:4: mark.mlx5_chaos: only="),
        ("only=5", "only: a pattern or a list of patterns is needed, not 5"),
        ("repeat=0", "repeat one from 1 to 1000"),
        ('"none.toml"', "none.toml"),
    ],
)
def test_a_mistake_in_a_marker_of_failures_is_one_line(tmp_path, mark, why):
    tests = f"""
import pytest

@pytest.mark.mlx5_chaos({mark})
def test_one(mlx5_failure): pass

def test_other(): pass
"""
    done = run_tests(tmp_path, tests)
    assert "ERROR at setup of test_one" in done.stdout
    assert "1 passed, 1 error" in done.stdout
    assert why in done.stdout
    assert "Traceback" not in done.stdout
