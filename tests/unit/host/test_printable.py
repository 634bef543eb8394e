"""Text of others on the user's terminal."""

import unicodedata

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from emu.cli import main as cli
from emu.cli.commands.functions import fault as fault_command
from emu.cli.shared import control, progress
from emu.guests import GuestPanicError
from emu.host.printable import one_line, printable

pytestmark = pytest.mark.hostile

NASTY = "\x1b]0;owned\x07 [/red] [bold]x[/] :smile: \x9b31m \u202edesrever \r\x08\x7f"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("two\n\tlines", "two\n\tlines"),
        ("Größe 漢字 é", "Größe 漢字 é"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x00\x7f", "a\\rb\\x00\\x7f"),
        ("\u202edesrever\u2028", "\\u202edesrever\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_shown(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_nothing_commands_the_terminal(text):
    shown = printable(text)
    assert not any(
        unicodedata.category(one) in ("Cc", "Cf", "Cs") for one in shown if one not in "\n\t"
    )
    shown.encode()
    assert printable(shown) == shown


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_and_short(text, most):
    line = one_line(text, most)
    assert len(line.splitlines() or [""]) == 1
    assert len(line) <= most + 3


def test_errors_of_a_guest(monkeypatch):
    def fail(*_):
        raise GuestPanicError(f"panic: {NASTY}", f"console {NASTY}\nline")

    monkeypatch.setattr("emu.guests.doctor.examine", fail)
    monkeypatch.setattr("emu.cli.commands.setup.doctor.examine", fail)
    result = CliRunner().invoke(cli.main, ["doctor"])
    assert result.exit_code == 125
    assert "panic: \\x1b]0;owned\\x07 [/red]" in result.output
    said = result.output[result.output.index("The console") :]
    assert not any(letter in said for letter in "\x1b\x07\x9b\u202e\r\x08\x7f")


def test_progress_of_a_module_with_such_a_name():
    for is_terminal in (True, False):
        console = Console(force_terminal=is_terminal, width=300)
        with console.capture() as captured:
            shown = progress.Display(console)
            shown(f"test_{NASTY}", 1, 2)
            shown.close()
        assert "owned" in captured.get()
        assert "\x1b]0" not in captured.get()


def test_progress_of_a_kernel_whose_name_is_an_emoji():
    console = Console(force_terminal=False, width=300)
    with console.capture() as captured:
        shown = progress.Display(console)
        shown("kernel debian:cloud: extracting archives", 0, 0)
        shown.close()
    assert captured.get() == "kernel debian:cloud: extracting archives\n"


def test_rules_of_such_names(monkeypatch, capsys):
    class Client:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def rules(self):
            return [{"name": NASTY, "rule": {"point": "irq", "action": "drop"}, "counts": []}]

    monkeypatch.setattr(fault_command, "connect", lambda *_: Client())
    result = CliRunner().invoke(cli.main, ["fault", "list"])
    assert result.exit_code == 0
    assert "[/red] [bold]x[/] :smile:" in result.output
    assert "\x1b" not in result.output


def test_tables_take_no_markup():
    console = control.console()
    with console.capture() as captured:
        console.print("[/nothing] :bug:")
    assert captured.get() == "[/nothing] :bug:\n"
