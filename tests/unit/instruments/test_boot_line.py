"""The line of pytest's output that says what a test waits for."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from emu.guests.guest.vm import BOOTING
from emu.instruments.testing.booting import BootLine


class Reporter:
    """As pytest's terminal reporter; takes what is written."""

    def __init__(self, isatty):
        self.isatty = isatty
        self.text = ""

    def ensure_newline(self):
        self.text += "|"

    def write(self, text, *, flush):
        self.text += text


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def boot(request):
    """A line with its reporter, and a clock that is moved by hand."""
    reporter, clock = Reporter(request.param), SimpleNamespace(now=100.0)
    capture = SimpleNamespace(global_and_fixture_disabled=contextlib.nullcontext)
    plugins = {"terminalreporter": reporter, "capturemanager": capture}
    manager = SimpleNamespace(getplugin=plugins.get)
    line = BootLine(SimpleNamespace(pluginmanager=manager), "sid", lambda: clock.now)

    def at(seconds):
        clock.now = 100 + seconds
        line.tick()

    return SimpleNamespace(line=line, reporter=reporter, at=at)


def test_short_steps_are_not_told(boot):
    boot.at(50)  # nothing has begun
    boot.line(BOOTING, 0, 0)
    boot.at(52.9)
    boot.line("another", 0, 0)
    boot.at(55)
    boot.line.close()
    boot.at(90)
    assert boot.reporter.text == ""


def test_a_long_step_is_told_with_its_seconds(boot):
    boot.line(BOOTING, 0, 0)
    boot.at(3)
    boot.at(4)
    boot.line(BOOTING, 1, 2)
    boot.at(12)
    boot.line.close()
    begin = "mlx5: booting sid guest ..."
    counted = "".join(f"\r{begin} {seconds} s" for seconds in (3, 4, 12, 12))
    expected = f"|{begin}{counted}\n" if boot.reporter.isatty else f"|{begin} 12 s\n"
    assert boot.reporter.text == expected


def test_each_step_has_its_own_line(boot):
    boot.line.waiting()
    boot.at(5)
    boot.line(BOOTING, 0, 0)
    boot.at(7)
    boot.at(10)
    boot.line.close()
    shown = [line.strip("|") for line in boot.reporter.text.split("\n")]
    ends = [line.rpartition("\r")[2] for line in shown]
    assert ends == [
        "mlx5: waiting for another build ... 5 s",
        "mlx5: booting sid guest ... 5 s",
        "",
    ]
    assert boot.reporter.text.count("|") == 2
