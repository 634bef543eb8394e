"""What is said while something long is done: on a terminal at once, elsewhere after 3 s."""

import io
import re
import threading

import pytest
from click.testing import CliRunner
from helpers.terminal import Terminal
from rich.console import Console

from emu.cli.main import main
from emu.cli.options import coverage as coverage_options
from emu.cli.options.coverage import CoverageRequest, covered
from emu.cli.shared import progress
from emu.guests.guest.vm import BOOTING
from emu.instruments.coverage import data
from emu.instruments.coverage.data import Coverage, CoveredFunction, CoveredKernel, CoveredModule

LINE = '{"t_ns": 1, "function": 0, "point": "irq", "vector": 5, "eqn": 2}\n'

FUNCTIONS = [CoveredFunction(name="probe_one", offset=0, calls=1)]
MODULE = CoveredModule(directory="drivers", functions=FUNCTIONS)
KERNEL = CoveredKernel(runs=1, missed=647, modules={"mlx5_core": MODULE})
COVERAGE = Coverage(mlx5emu_coverage=1, kernels={"6.12": KERNEL})


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def screen(request, monkeypatch):
    """Standard error, and whether it is a terminal."""
    out = io.StringIO()
    is_terminal = request.param
    monkeypatch.setattr(progress, "SILENT_SECONDS", 3600.0)  # no reminder, however busy the host is
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=out, force_terminal=is_terminal, width=80)
    )
    return out, is_terminal


def test_short_work_is_said_on_a_terminal_alone(screen):
    out, is_terminal = screen
    with progress.working("counting sheep"):
        assert ("counting sheep" in out.getvalue()) == is_terminal
    assert bool(out.getvalue()) == is_terminal


class Written(io.StringIO):
    """A file that tells when a number of lines has been written."""

    def __init__(self, lines):
        super().__init__()
        self._left = threading.Semaphore(0)
        self._lines = lines

    def write(self, text):
        done = super().write(text)
        for _ in range(text.count("\n")):
            self._left.release()
        return done

    def wait(self):
        """Return the lines once all are there."""
        for _ in range(self._lines):
            assert self._left.acquire(timeout=60)
        return self.getvalue().splitlines()


@pytest.fixture
def impatient(monkeypatch):
    """Return a file without a terminal, whose reminders come at once."""

    def make(lines):
        out = Written(lines)
        console = Console(file=out, force_terminal=False, width=80)
        monkeypatch.setattr(progress, "Console", lambda **_: console)
        monkeypatch.setattr(progress, "SILENT_SECONDS", 0.001)
        monkeypatch.setattr(progress, "REPEAT_SECONDS", 0.001)
        return out

    return make


def test_long_work_is_told_in_a_file_and_told_again(impatient):
    out = impatient(2)
    with progress.working("counting sheep"):
        first, second = out.wait()[:2]
    assert first == "counting sheep"
    assert re.fullmatch(r"counting sheep: \d+ s so far", second)


def test_a_long_boot_is_told_in_a_file(impatient):
    out = impatient(1)
    with progress.display() as (show, _):
        show(BOOTING, 0, 0)
        assert out.wait()[0] == BOOTING


def test_a_long_step_is_printed_once_and_its_time_later(impatient):
    out = impatient(2)
    with progress.display() as (show, _):
        show("building an image", 0, 0)
        first, second = out.wait()[:2]
    assert first == "building an image"
    assert second.startswith("building an image: ")


def test_it_ends_when_the_first_line_comes(screen):
    out, _ = screen
    with progress.working("counting sheep") as end:
        end()
        before = out.getvalue()
        end()
    assert out.getvalue() == before


def test_a_short_boot_is_said_on_a_terminal_alone(screen):
    out, is_terminal = screen
    with progress.display() as (show, _):
        show(BOOTING, 0, 0)
        assert (BOOTING in out.getvalue()) == is_terminal
    assert bool(out.getvalue()) == is_terminal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "count", "{0}/trace"], "reading {0}/trace"),
        (["trace", "export", "{0}/trace", "--html", "{0}/out"], "writing {0}/out"),
        (["trace", "export", "{0}/trace", "--perfetto", "{0}/out"], "writing {0}/out"),
        (["coverage", "show", "{0}/coverage"], "reading the coverage files"),
        (["coverage", "show", "{0}/coverage", "--html", "{0}/out"], "writing {0}/out"),
        (["coverage", "merge", "{0}/coverage", "--out", "{0}/out"], "writing {0}/out"),
        (["guest", "clean"], "removing"),
    ],
)
def test_commands_that_may_take_long(screen, tmp_path, monkeypatch, words, said):
    out, is_terminal = screen
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "trace").write_text(LINE)
    data.save(tmp_path / "coverage", COVERAGE)
    result = CliRunner().invoke(main, [word.format(tmp_path) for word in words])
    assert result.exit_code == 0, result.output
    folded = "".join(out.getvalue().split())
    assert (said.format(tmp_path)[:30].replace(" ", "") in folded) == is_terminal


def test_a_trace_in_a_pipe_is_shown_without_progress(screen, tmp_path):
    out, _ = screen
    (tmp_path / "trace").write_text(LINE)
    result = CliRunner().invoke(main, ["trace", "show", str(tmp_path / "trace")])
    assert "irq   vector 5" in result.output
    assert not out.getvalue()


def test_a_trace_on_a_terminal_is_shown_with_progress(tmp_path):
    (tmp_path / "trace").write_text(LINE)
    with Terminal("trace", "show", tmp_path / "trace") as terminal:
        assert terminal.status() == 0
        assert b"reading" in terminal.raw


class Session:
    """Counts nothing, and says when it is asked to."""

    def __init__(self, out):
        self._out = out
        self.shown = []

    def start(self):
        self.shown.append(self._out.getvalue())

    def finish(self):
        self.shown.append(self._out.getvalue())
        return COVERAGE


def test_a_run_s_coverage_is_named_with_what_was_lost(screen, tmp_path, monkeypatch, capsys):
    """Loading what is counted takes ten seconds under TCG, and reading the counts one."""
    out, is_terminal = screen
    session = Session(out)
    monkeypatch.setattr(coverage_options, "_session", lambda *_: session)
    path = tmp_path / "a b.json"
    with covered(None, CoverageRequest(("mlx5_core",), path, False, False)):
        pass
    assert ["loading mlx5_core" in session.shown[0], "reading which" in session.shown[1]] == (
        [is_terminal] * 2
    )
    assert data.load(path) == COVERAGE
    assert capsys.readouterr().err.splitlines() == [
        "mlx5emu: mlx5_core: 1 of 1 functions ran",
        "mlx5emu: 647 calls were lost by the tracer: a function called only then counts as not run",
        f"mlx5emu: {path} is written: mlx5emu coverage show '{path}'",
    ]


def test_the_table_says_what_was_lost(tmp_path):
    data.save(tmp_path / "coverage", COVERAGE)
    lines = CliRunner().invoke(main, ["coverage", "show", f"{tmp_path}/coverage"]).output
    assert "6.12: 647 calls were lost by the tracer: a function called only then" in lines


def test_lines_of_a_command_take_the_bar_away(screen):
    """It comes back with the next thing that is done."""
    out, is_terminal = screen
    with progress.watching() as shown:
        shown.work("one")
        shown.close()
        shown.work("two")
        assert ("two" in out.getvalue()) == is_terminal
