"""The sections of a pytest report: a short one fits the terminal, a full one has whole lines."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from emu.device.trace.event import TraceEvent
from emu.instruments.testing.watched import Watched

LONG = "mlx5_core 0000:01:00.0: " + "x" * 200


@pytest.mark.parametrize(("columns", "width"), [("", 80), ("60", 60), ("300", 300)])
def test_lines_of_a_short_report_fit_the_terminal(tmp_path, monkeypatch, columns, width):
    def no_terminal(_descriptor):
        raise OSError

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    trace = tmp_path / "trace.json"
    event = TraceEvent(0, 0, "cmd", {"slot": 0, "op": "NOP", "status": "OK", "in": {"x": LONG}})
    trace.write_text(f"{event.to_json()}\n")
    guest: Any = SimpleNamespace(
        options=SimpleNamespace(trace=trace), log_files={}, console="", dmesg=lambda: LONG
    )
    watched = Watched(guest, is_new=True)
    watched._body = watched._test = type(watched._test)()
    short, full = (dict(watched.sections(is_full=is_full)) for is_full in (False, True))
    for name in ("dmesg", "trace"):
        assert LONG in full[name]
        assert short[name] == full[name] or (
            len(short[name]) == width and short[name] == f"{full[name][: width - 1]}…"
        )
    assert (LONG in short["dmesg"]) == (width == 300)
