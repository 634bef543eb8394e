"""rdma-core's tests without a guest: the program inside runs here, over tests of our own."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from emu.cli.commands.guests import rdma_tests as command
from emu.guests.channel import frames
from emu.guests.conformance import crypto
from emu.guests.conformance import inside as program_inside
from emu.guests.conformance import suite as tests
from emu.guests.conformance.suite import (
    SuiteOutcome,
    choose,
    hand_over,
    list_modules,
    prepare,
    run_module,
)
from emu.guests.errors import GuestError, GuestPanicError, GuestStoppedError, LabError

ARGS_PARSER = """
class Parser:
    def parse_args(self): pass
parser = Parser()
"""

TESTS = """
import multiprocessing, os, signal, subprocess, sys, time, unittest
from tests.utils import NAME

class Good(unittest.TestCase):
    def test_1_passes(self): print("noise", NAME)
    def test_2_skips(self): raise unittest.SkipTest("no such capability")
    @unittest.skip("never here")
    def test_3_is_skipped(self): pass
    def test_4_may_start_processes(self):
        self.assertEqual(multiprocessing.get_start_method(allow_none=True), "fork")

class Wrong(unittest.TestCase):
    def test_1_fails(self): self.assertEqual(1, 2)
    def test_2_is_in_error(self): raise ValueError("odd")
    def test_3_has_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    @unittest.expectedFailure
    def test_4_should_not_pass(self): pass
    def test_5_exits(self): sys.exit(0)

class Fixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError("class")
    def test_never(self): pass

class Worse(unittest.TestCase):
    def test_1_crashes(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_2_hangs(self): time.sleep(1000)
    def test_3_ends_the_process(self): os._exit(3)
    def test_4_leaves_a_process(self):
        if not os.fork():
            time.sleep(1000)
    def test_5_crashes_with_a_process_left(self):
        if not os.fork():
            time.sleep(1000)
        os.abort()
    def test_6_passes(self): pass
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "args_parser.py").write_text(ARGS_PARSER)
    (tmp_path / "utils.py").write_text("NAME = 'utils'")
    (tmp_path / "__init__.py").write_text("raise RuntimeError('everything would be imported')")
    (tmp_path / "test_all.py").write_text(textwrap.dedent(TESTS))
    (tmp_path / "test_broken.py").write_text("import nonsense")
    (tmp_path / "test_empty.py").write_text("")
    return tmp_path


def inside(directory, module, timeout=2, *more):
    """The events of the program inside."""
    words = [sys.executable, program_inside.__file__, module]
    words += ["--directory", str(directory), "--timeout", str(timeout), *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, start_new_session=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


ENDS = {
    "Good.test_1_passes": ("passed", ""),
    "Good.test_2_skips": ("skipped", "no such capability"),
    "Good.test_3_is_skipped": ("skipped", "never here"),
    "Good.test_4_may_start_processes": ("passed", ""),
    "Wrong.test_1_fails": ("failed", "1 != 2"),
    "Wrong.test_2_is_in_error": ("error", "ValueError: odd"),
    "Wrong.test_3_has_subtests": ("failed", "1 == 1"),
    "Wrong.test_4_should_not_pass": ("failed", "expected to fail"),
    "Wrong.test_5_exits": ("error", "SystemExit"),
    "Worse.test_1_crashes": ("crashed", "killed by signal 11"),
    "Worse.test_2_hangs": ("timeout", "no end after 2 s"),
    "Worse.test_3_ends_the_process": ("crashed", "exit 3"),
    "Worse.test_4_leaves_a_process": ("passed", ""),
    "Worse.test_5_crashes_with_a_process_left": ("crashed", "killed by signal 6"),
    "Worse.test_6_passes": ("passed", ""),
}


def test_every_way_for_a_test_to_end(directory):
    events, stderr = inside(directory, "test_all")
    assert len(events) == len(ENDS) + 2
    assert events[0] == {"count": len(ENDS) + 1}
    ends = {event["test"].removeprefix("tests.test_all."): event for event in events[1:]}
    fixture = ends.pop("setUpClass (tests.test_all.Fixture)")
    assert fixture["outcome"] == "error"
    assert "RuntimeError: class" in fixture["detail"]
    assert ends.keys() == ENDS.keys()
    for name, (outcome, detail) in ENDS.items():
        assert ends[name]["outcome"] == outcome
        assert detail in ends[name]["detail"], name
        assert ends[name]["seconds"] >= 0
    assert "noise utils" in stderr


def test_module_that_cannot_be_imported(directory):
    events, _ = inside(directory, "test_broken")
    (event,) = events
    assert (event["test"], event["outcome"]) == ("tests.test_broken", "error")
    assert "No module named 'nonsense'" in event["detail"]


def test_what_a_failed_test_has_left_open_is_closed(directory):
    (directory / "test_open.py").write_text(
        "import os, unittest\nopened = []\nclass One(unittest.TestCase):\n"
        "    def test_1(self): opened.append(1); self.fail()\n"
        "    def test_2(self): self.assertEqual(opened, [])\n"
        "    def test_3(self): opened.append(1); self.fail()\n"
    )
    events, _ = inside(directory, "test_open")
    assert [event.get("outcome") for event in events] == [None, "failed", "passed", "failed"]


def test_module_without_tests(directory):
    assert inside(directory, "test_empty")[0] == [{"count": 0}]


def test_options_of_the_suite(directory):
    """They are there when it parses them, before a module is imported."""
    (directory / "args_parser.py").write_text(
        "import sys\nclass Parser:\n    def parse_args(self): self.seen = sys.argv[1:]\n"
        "parser = Parser()\n"
    )
    (directory / "test_words.py").write_text(
        "import unittest\nfrom args_parser import parser\nclass One(unittest.TestCase):\n"
        "    def test_one(self): raise unittest.SkipTest(' '.join(parser.seen))\n"
    )
    for words in ([], ["--pci-dev", "0000:02:00.0"]):
        (_, event), _ = inside(directory, "test_words", 2, *words)
        assert event["detail"] == " ".join(words)


# The host's side.


class FakeGuest:
    """Runs what the guest would run, here."""

    def __init__(self, directory):
        self.directory = directory

    def run(self, words, *, timeout=None):
        class Result:
            stdout = "\n".join(sorted(os.listdir(self.directory)))

            def check(self):
                return self

        assert words[0] in ("ls", "sh")
        self.asked = [*getattr(self, "asked", []), words]
        return Result()

    def popen(self, words, *, has_input, sink):
        self.words, self.sink = words, sink
        return self

    def write(self, program):
        assert program == Path(program_inside.__file__).read_bytes()

    def close_input(self):
        pass

    def wait(self, job, timeout):
        events, stderr = inside(self.directory, self.words[3], self.words[-1])
        self.sink(frames.STDERR, stderr.encode())
        text = "".join(json.dumps(event) + "\n" for event in events).encode()
        for at in range(0, len(text), 7):  # in pieces that end anywhere
            self.sink(frames.STDOUT, text[at : at + 7])


@pytest.fixture
def guest(directory):
    return FakeGuest(directory)


def test_modules_of_the_image(guest):
    assert list_modules(guest) == ["test_all", "test_broken", "test_empty"]


def test_ipoib_has_an_address_before_tests_run(guest):
    prepare(guest)
    (shell, option, script), (*_, write) = guest.asked
    assert crypto.PATH in write
    assert (shell, option) == ("sh", "-c")
    assert "modprobe ib_ipoib" in script


def test_choice_of_modules():
    modules = ["test_a", "test_b", "test_c"]
    assert choose(modules, ()) == modules
    assert choose(modules, ("test_c", "test_a")) == ["test_a", "test_c"]
    assert choose(modules, ("tests.test_b",)) == ["test_b"]
    with pytest.raises(LabError, match="no test module qp; there are test_a, test_b, test_c"):
        choose(modules, ("qp",))
    with pytest.raises(LabError, match="no test module test_x; near it: test_c, test_b, test_a"):
        choose(modules, ("test_x",))


def test_a_function_that_vfio_has(guest):
    hand_over(guest)
    (_, _, script) = guest.asked[-1]
    assert "vfio-pci" in script
    guest.wait = lambda job, timeout: None
    run_module(guest, "test_empty", 2.0, lambda *_: None, "0000:02:00.0")
    assert guest.words[-2:] == ["--pci-dev", "0000:02:00.0"]
    run_module(guest, "test_empty", 2.0, lambda *_: None)
    assert "--pci-dev" not in guest.words


def test_results_of_a_module(guest):
    seen = []
    run = run_module(guest, "test_all", 2.0, lambda *progress: seen.append(progress))
    assert len(run.tests) == len(ENDS) + 1
    assert seen[-1] == ("test_all", len(ENDS) + 1, len(ENDS) + 1)
    assert run.count(SuiteOutcome.PASSED) == 4
    assert run.count(SuiteOutcome.CRASHED, SuiteOutcome.TIMEOUT) == 4
    assert run.skip_reasons() == [("no such capability", 1), ("never here", 1)]
    (crash,) = (test for test in run.tests if test.test.endswith("test_1_crashes"))
    assert crash.detail.startswith("killed by signal 11")


def test_a_known_mistake_of_a_test_is_a_reason_to_skip(directory, guest):
    """By its name and by the place where it fails: elsewhere it fails as all others."""
    (directory / "test_flow.py").write_text(
        textwrap.dedent("""
        import unittest
        def create_devx_flow_table(): raise OSError(121, "Remote I/O error")
        class One(unittest.TestCase):
            def test_flow_table_drop(self): create_devx_flow_table()
            def test_other(self): create_devx_flow_table()
        class Two(unittest.TestCase):
            def test_flow_table_drop(self): raise OSError(121, "Remote I/O error")
            def test_dm_atomic_ops(self): self.assertEqual(1, 255)
            def test_parallel_dm_atomic_ops(self): self.assertEqual(10, 9)
            def test_flow_meter(self): raise OSError(95, "Reg C is not supported")
        """)
    )
    run = run_module(guest, "test_flow", 2.0, lambda *_: None)
    ends = {test.test.removeprefix("tests.test_flow."): test.outcome for test in run.tests}
    assert ends == {
        "One.test_flow_table_drop": SuiteOutcome.SKIPPED,
        "One.test_other": SuiteOutcome.ERROR,
        "Two.test_flow_table_drop": SuiteOutcome.ERROR,
        "Two.test_dm_atomic_ops": SuiteOutcome.SKIPPED,
        "Two.test_parallel_dm_atomic_ops": SuiteOutcome.FAILED,
        "Two.test_flow_meter": SuiteOutcome.SKIPPED,
    }
    first, second, third = sorted(reason for reason, _ in run.skip_reasons())
    assert "RDMA flow tables are not offered" in first
    assert "expects test_and_set to store 0xff" in second
    assert "flow meters are not offered" in third


def test_results_as_json(guest):
    run = run_module(guest, "test_all", 2.0, lambda *_: None)
    found = json.loads(json.dumps(run.as_dict()))
    assert found["module"] == "test_all"
    assert found["counts"]["skipped"] == 2
    assert {"test", "outcome", "detail", "seconds"} == found["tests"][0].keys()


def test_program_that_says_nothing(guest, monkeypatch):
    """The guest's Python is broken, say: the module has failed, and the reason is shown."""
    monkeypatch.setattr(guest, "wait", lambda *_: guest.sink(frames.STDERR, b"no python3\n"))
    run = run_module(guest, "test_all", 2.0, lambda *_: None)
    assert [(test.outcome, test.detail) for test in run.tests] == [
        (SuiteOutcome.CRASHED, "no python3")
    ]


# The command.


@pytest.fixture
def invoke(guest, monkeypatch):
    def run(*words):
        class Started(FakeGuest):
            def __init__(self, options, **_):
                super().__init__(guest.directory)
                cast(Any, run).options = options

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        monkeypatch.setattr(command, "Guest", Started)
        return CliRunner().invoke(command.rdma_tests, words)

    return run


def test_command_prints_a_table_and_what_failed(invoke, tmp_path):
    file = tmp_path / "results.json"
    result = invoke("--module", "test_all", "--timeout", "2", "--json", str(file))
    assert result.exit_code == 1
    assert "1 x no such capability" in result.output
    assert "crashed: tests.test_all.Worse.test_1_crashes" in result.output
    assert "ValueError: odd" in result.output
    (run,) = json.loads(file.read_text())
    assert run["counts"]["passed"] == 4


def test_command_ends_well_when_nothing_failed(invoke):
    result = invoke("--module", "test_empty")
    assert result.exit_code == 0
    assert invoke.options.hugepages == 64


def test_command_with_its_own_huge_pages(invoke):
    invoke("--module", "test_empty", "--hugepages", "100")
    assert invoke.options.hugepages == 100


def test_command_with_a_module_that_is_not_there(invoke):
    result = invoke("--module", "test_nothing")
    assert isinstance(result.exception, LabError)


def test_a_guest_that_panics_leaves_what_was_there_until_then(invoke, tmp_path, monkeypatch):
    """One module is finished, the next one takes the guest along."""
    finished = tests.run_module

    def run_module(guest, module, timeout, progress, pci_dev):
        if module == "test_empty":
            raise GuestPanicError("the guest panicked: Fatal exception", "the console's end")
        return finished(guest, module, timeout, progress)

    monkeypatch.setattr(tests, "run_module", run_module)
    files = tmp_path / "suite.xml", tmp_path / "suite.tap"
    modules = "--module", "test_all", "--module", "test_empty"
    result = invoke(*modules, "--timeout", "2", "--junit", str(files[0]), "--tap", str(files[1]))
    assert isinstance(result.exception, GuestPanicError)
    *done, last = ElementTree.parse(files[0]).iter("testcase")
    assert len(done) >= 4
    assert (last.get("classname"), last.get("name")) == ("test_empty", "the guest")
    assert last.find("error").get("message") == "the guest panicked: Fatal exception"
    assert last.find("system-err").text == "the console's end"
    assert "not ok" in files[1].read_text()


@pytest.mark.parametrize("wrong", ["0", "-1", "x"])
def test_timeout_that_cannot_be(invoke, wrong):
    assert invoke("--timeout", wrong).exit_code == 2


def test_guest_that_ends_early(guest, monkeypatch):
    def wait(job, timeout):
        raise GuestStoppedError("the guest powered off")

    monkeypatch.setattr(guest, "wait", wait)
    with pytest.raises(GuestStoppedError):
        run_module(guest, "test_all", 2.0, lambda *_: None)


NASTY = "\x1b[2J [/nonsense] [red]"


def event(**changes):
    whole = {"test": "tests.test_a.T.t", "outcome": "skipped", "detail": "why", "seconds": 0.1}
    return json.dumps(whole | changes).encode() + b"\n"


class LoudGuest:
    """Its program says what a test wants, in pieces of any size."""

    def __init__(self, *pieces, kind=frames.STDOUT):
        self.pieces, self.kind = pieces, kind

    def popen(self, words, has_input, sink):
        self.sink = sink
        return self

    def write(self, data):
        pass

    def close_input(self):
        pass

    def wait(self, job, timeout):
        for piece in self.pieces:
            self.sink(self.kind, piece)


def collect(*pieces, **options):
    return run_module(LoudGuest(*pieces, **options), "test_a", 1, lambda *_: None)


@pytest.mark.hostile
class TestResultsOfAHostileGuest:
    def test_reasons_and_names_are_text(self, capsys):
        told = event(detail=NASTY) + event(test=f"t{NASTY}", outcome="failed", detail=NASTY)
        run = collect(told)
        console = Console(markup=False, emoji=False, highlight=False, width=200)
        console.print(command._table([run]))
        command._print_broken(console, [run])
        said = capsys.readouterr().out
        assert r"1 x \x1b[2J [/nonsense] [red]" in said
        assert r"failed: t\x1b[2J [/nonsense] [red]" in said
        assert "\x1b[2J" not in said

    @pytest.mark.parametrize(
        "line",
        [
            b"text\n", b"\xff\xfe\n", b"[]\n", b"1\n", b"null\n", b"{}\n", b"[" * 50_000 + b"\n",
            event(test=1), event(outcome="odd"), event(outcome=[]), event(detail=None),
            event(seconds="x"), event(seconds=float("inf")), event(seconds=float("nan")),
            event(seconds=[1]), b'{"count": "x"}\n', b'{"count": {}}\n', b'{"count": 1e999}\n',
        ],
    )  # fmt: skip
    def test_what_is_no_result(self, line):
        with pytest.raises(GuestError, match="invalid result"):
            collect(line)

    def test_a_line_without_an_end(self):
        with pytest.raises(GuestError, match="too long a line or too many"):
            collect(*[b"x" * 10_000] * 10)

    def test_results_without_an_end(self, monkeypatch):
        monkeypatch.setattr("emu.guests.conformance.suite._MAX_TESTS", 100)
        with pytest.raises(GuestError, match="too long a line or too many"):
            collect(*[event() * 10] * 20)

    def test_what_is_kept_is_short(self):
        run = collect(event(test="t" * 40_000, detail=""), event(detail="d" * 40_000))
        assert (len(run.tests[0].test), len(run.tests[1].detail)) == (500, 8000)

    def test_of_errors_the_last_are_kept(self):
        run = collect(*[b"noise " * 1000] * 100, b"\nlast words", kind=frames.STDERR)
        assert run.tests[0].detail.endswith("last words")
        assert len(run.tests[0].detail) <= 64 << 10

    @given(st.lists(st.binary(max_size=40), max_size=5))
    def test_whatever_it_says(self, pieces):
        with contextlib.suppress(GuestError):
            collect(*pieces)
