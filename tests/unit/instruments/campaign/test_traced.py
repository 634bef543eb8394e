"""The trace of a run from its fault on."""

from __future__ import annotations

import json

import pytest

from emu.instruments.campaign import traced
from emu.instruments.campaign.traced import fault_ns, since_fault

HEAD = '{"record":2,"seed":0,"devices":[],"run":{},"plan":{"rule":[]}}\n'
RULE = {"name": "one", "point": "cqe", "action": "drop"}
LOADED = json.dumps({"added": RULE, "commands": [9], "seconds": 2.5}) + "\n"


def fired(n, seconds):
    about = {"function": 0, "rule": "one", "n": n, "point": "cqe", "action": "drop"}
    return json.dumps(about | {"seconds": seconds}) + "\n"


@pytest.mark.parametrize(
    ("record", "begin"),
    [
        (HEAD + LOADED + fired(1, 4.0) + fired(2, 3.0), 10_500_000_000),
        (HEAD + LOADED, 10_000_000_000),
        ("", 10_000_000_000),
        ("{}\n", 10_000_000_000),
    ],
)
def test_the_first_fault_is_dated_from_the_plans_load(record, begin):
    assert fault_ns(record, 10_000_000_000) == begin


def event(t_ns, point, **fields):
    return json.dumps({"t_ns": t_ns, "function": 0, "point": point, **fields}) + "\n"


def test_only_commands_and_resets_are_older_than_the_fault(tmp_path):
    path = tmp_path / "trace"
    old = [event(1, "reset"), event(2, "mmio"), event(3, "cmd"), event(4, "wqe")]
    new = [event(5, "wqe"), event(6, "cqe")]
    path.write_text("".join(old + new) + '{"cut')
    assert since_fault(path, 5) == "".join([old[0], old[2], *new])


def test_a_long_boot_does_not_hide_the_fault(tmp_path, monkeypatch):
    """A driver makes thousands of memory keys for its cache."""
    path = tmp_path / "trace"
    keys, queues = event(1, "cmd", op="CREATE_MKEY"), event(2, "cmd", op="CREATE_CQ")
    new = event(5, "cqe")
    path.write_text(keys * 3 + queues * 4 + new)
    monkeypatch.setattr(traced, "MAX_TRACE", 4 * len(queues) + 2)
    assert since_fault(path, 5) == queues * 2 + new


def test_a_long_trace_is_cut_at_a_line(tmp_path, monkeypatch):
    path = tmp_path / "trace"
    lines = [event(5, "wqe")] * 4
    path.write_text("".join(lines))
    monkeypatch.setattr(traced, "MAX_TRACE", 2 * len(lines[0]) + 1)
    assert since_fault(path, 5) == "".join(lines[:2])


def test_no_trace(tmp_path):
    assert since_fault(tmp_path / "none", 0) == ""
