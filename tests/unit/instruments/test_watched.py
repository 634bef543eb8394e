"""The sections of a pytest report: a short one fits the terminal, a full one has whole lines."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from emu.device.trace.event import TraceEvent
from emu.instruments.testing.handles import _rule_line
from emu.instruments.testing.watched import MAX_LINES, Watched

LONG = "mlx5_core 0000:01:00.0: " + "x" * 200


@pytest.mark.parametrize(("columns", "width"), [("", 80), ("60", 60), ("300", 300)])
def test_lines_of_a_short_report_fit_the_terminal(tmp_path, monkeypatch, columns, width):
    def no_terminal(_descriptor):
        raise OSError

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    trace = tmp_path / "trace.json"
    event = TraceEvent(
        0, 0, "cmd", {"slot": 0, "op": "NOP", "status": "LIM_ERR", "in": {"x": LONG}}
    )
    trace.write_text(f"{event.to_json()}\n")
    guest: Any = SimpleNamespace(
        options=SimpleNamespace(trace=trace), log_files={}, console="", dmesg=lambda: LONG
    )
    watched = Watched(guest, is_new=True)
    watched._body = watched._test = type(watched._test)()
    short, full = (dict(watched.sections(is_full=is_full)) for is_full in (False, True))
    assert LONG in full["dmesg"]
    assert LONG in full["trace"]
    assert short["trace"] in (full["trace"], f"{full['trace'][: width - 1]}…")
    lines = short["dmesg"].splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(short["dmesg"].split()) == LONG.replace(" ", "")
    assert (LONG in short["dmesg"]) == (width == 300)


def test_a_failed_command_is_shown_before_later_events(tmp_path):
    """`CREATE_CQ` is refused, and a test that fails makes many events while it ends."""
    trace = tmp_path / "trace.json"
    refused = TraceEvent(0, 0, "cmd", {"slot": 0, "op": "CREATE_CQ", "status": "LIM_ERR"})
    broken = TraceEvent(1, 0, "cqe", {"cqn": 1, "qpn": 2, "type": "REQ_ERR", "syndrome": "FLUSH"})
    others = [TraceEvent(2 + n, 0, "irq", {"vector": n, "eqn": 1}) for n in range(100)]
    lines = [f"{event.to_json()}\n" for event in (*others[:50], refused, broken, *others[50:])]
    trace.write_text("".join(lines))
    guest: Any = SimpleNamespace(
        options=SimpleNamespace(trace=trace), log_files={}, console="", dmesg=str
    )
    watched = Watched(guest, is_new=True)
    watched._body = type(watched._test)()
    shown = dict(watched.sections(is_full=False))["trace"].splitlines()
    assert ("CREATE_CQ" in shown[0], "FLUSH" in shown[1]) == (True, True)
    assert len(shown) == MAX_LINES
    assert "99" in shown[-1] or "0x63" in shown[-1]


def test_a_trace_in_which_nothing_fails_is_one_line(tmp_path):
    trace = tmp_path / "trace.json"
    events = [TraceEvent(n, 0, "cmd", {"slot": 0, "op": "NOP", "status": "OK"}) for n in range(60)]
    trace.write_text("".join(f"{event.to_json()}\n" for event in events))
    guest: Any = SimpleNamespace(
        options=SimpleNamespace(trace=trace), log_files={}, console="", dmesg=str
    )
    watched = Watched(guest, is_new=True)
    watched._body = watched._test = type(watched._test)()
    short, full = (dict(watched.sections(is_full=is_full)) for is_full in (False, True))
    assert short["trace"] == "no failure in 60 events; they are in the file below"
    assert str(trace) in short["files"]
    assert len(full["trace"].splitlines()) == 60


def test_a_rule_is_shown_in_words():
    counts = [{"met": 3, "fired": 1}, {"met": 1, "fired": 1}]
    rule = {"point": "cmd", "action": "fail", "match": {"op": "CREATE_CQ"}, "status": "LIM_ERR"}
    assert _rule_line({"name": "no-cq", "rule": rule, "counts": counts}) == (
        'no-cq: cmd fail match={op = "CREATE_CQ"} status="LIM_ERR": fired 2 times at 4 events'
    )
