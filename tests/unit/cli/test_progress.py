"""What is said on a terminal while something long is done, and nowhere else."""

import io

import pytest
from click.testing import CliRunner
from rich.console import Console

from emu.cli.main import main
from emu.cli.shared import progress
from emu.guests.guest.vm import BOOTING

LINE = '{"t_ns": 1, "function": 0, "point": "irq", "vector": 5, "eqn": 2}\n'


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def screen(request, monkeypatch):
    """Standard error, and whether it is a terminal."""
    out = io.StringIO()
    is_terminal = request.param
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=out, force_terminal=is_terminal, width=80)
    )
    return out, is_terminal


def test_work_is_said_on_a_terminal_alone(screen):
    out, is_terminal = screen
    with progress.working("counting sheep"):
        assert ("counting sheep" in out.getvalue()) == is_terminal
    assert bool(out.getvalue()) == is_terminal


def test_it_ends_when_the_first_line_comes(screen):
    out, _ = screen
    with progress.working("counting sheep") as end:
        end()
        before = out.getvalue()
        end()
    assert out.getvalue() == before


def test_a_boot_is_said_on_a_terminal_alone(screen):
    """Elsewhere a run with a full cache is silent."""
    out, is_terminal = screen
    with progress.display() as (show, _):
        show(BOOTING, 0, 0)
        assert (BOOTING in out.getvalue()) == is_terminal
    assert bool(out.getvalue()) == is_terminal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "show", "{0}/trace"], "reading {0}/trace"),
        (["trace", "count", "{0}/trace"], "reading {0}/trace"),
        (["trace", "export", "{0}/trace", "--html", "{0}/out"], "writing {0}/out"),
        (["trace", "export", "{0}/trace", "--perfetto", "{0}/out"], "writing {0}/out"),
    ],
)
def test_commands_that_may_take_long(screen, tmp_path, words, said):
    out, is_terminal = screen
    (tmp_path / "trace").write_text(LINE)
    result = CliRunner().invoke(main, [word.format(tmp_path) for word in words])
    assert result.exit_code == 0, result.output
    folded = "".join(out.getvalue().split())
    assert (said.format(tmp_path)[:30].replace(" ", "") in folded) == is_terminal
