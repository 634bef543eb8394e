"""The device's trace and the kernel's log on one time line."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from click.testing import CliRunner
from helpers.guest.named_guests import FakeGuest
from hypothesis import given
from hypothesis import strategies as st

from emu.cli.main import main
from emu.device.trace.event import KERNEL, TraceEvent
from emu.device.trace.text import TextForm
from emu.guests.errors import GuestError, LabError
from emu.guests.guest.kernel_trace import KernelTrace
from emu.guests.named import daemon, running
from emu.guests.timeline.clock import GuestClock, Mark, mark_of
from emu.guests.timeline.kernel_log import call_events, log_events
from emu.guests.timeline.merge import merged

SECOND = 1_000_000_000

LOG = """\
before the log
[    0.000000] Linux version 6.12
[   10.000100] mlx5emu: clock 1000000000000
[   10.500000][  T12] mlx5_core 0000:01:00.0: firmware version: 20.43.2000
 and more of it
"""

CALLS = """\
# tracer: function
#
# entries-in-buffer/entries-written: 2/5   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
           sh -c-212     [001] ...1.    10.600000: mlx5_cmd_exec <-mlx5_core_create_cq
          <idle>-0       [000] d.h1.    10.700000: mlx5_eq_comp_int <-__handle_irq_event_percpu
CPU:0 [LOST 5 EVENTS]
"""


def test_a_log_has_its_times():
    events = list(log_events(LOG))
    assert [event.t_ns for event in events] == [0, 10_000_100_000, 10_500_000_000, 10_500_000_000]
    assert events[2].fields["text"] == "mlx5_core 0000:01:00.0: firmware version: 20.43.2000"
    assert {event.function for event in events} == {KERNEL}
    assert mark_of(events[1]) == Mark(10_000_100_000, 1000 * SECOND)
    assert mark_of(events[0]) is None


def test_calls_have_theirs():
    first, second = call_events(CALLS)
    assert first.t_ns == 10_600_000_000
    assert first.fields == {
        "name": "mlx5_cmd_exec", "caller": "mlx5_core_create_cq", "task": "sh -c", "pid": 212,
        "cpu": 1,
    }  # fmt: skip
    assert second.fields["task"] == "<idle>"
    assert TextForm()(first).endswith(
        "k  call  mlx5_cmd_exec <- mlx5_core_create_cq sh -c-212 cpu 1"
    )


@given(st.text(max_size=200))
def test_anything_may_stand_in_a_log(text):
    for event in (*log_events(f"[    1.000000] {text}"), *call_events(text)):
        assert TraceEvent.from_json(event.to_json()) == event
        assert "\n" not in TextForm()(event)


def test_of_marks_close_together_the_earliest_is_right():
    marks = [Mark(10 * SECOND + late, 100 * SECOND) for late in (900, 5, 70_000)]
    clock = GuestClock(marks)
    assert clock.host_ns(11 * SECOND) == 101 * SECOND - 5
    assert clock.guest_ns(101 * SECOND - 5) == 11 * SECOND


def test_clocks_that_drift_are_followed():
    """The guest's clock gains a thousandth."""
    marks = [Mark(round(passed * 1.001) + 7, passed) for passed in (0, 100 * SECOND)]
    clock = GuestClock(marks)
    for passed in (0, 50 * SECOND, 200 * SECOND):
        assert abs(clock.guest_ns(passed) - (round(passed * 1.001) + 7)) < 10
        assert abs(clock.host_ns(clock.guest_ns(passed)) - passed) < 10


def test_a_mark_that_came_very_late_is_no_drift():
    clock = GuestClock([Mark(0, 0), Mark(30 * SECOND, 10 * SECOND)])
    assert clock.guest_ns(11 * SECOND) == 31 * SECOND


def test_without_a_mark_there_is_no_common_time():
    with pytest.raises(LabError, match="no clock mark"):
        GuestClock.of_log(log_events("[    1.000000] hello"))


DEVICE = [
    TraceEvent(1000 * SECOND, 0, "reset", {"model": "connectx6"}),
    TraceEvent(
        1000 * SECOND + 599_000_000, 0, "cmd", {"slot": 0, "op": "CREATE_CQ", "status": "OK"}
    ),
    TraceEvent(1000 * SECOND + 650_000_000, 0, "irq", {"vector": 0, "eqn": 1}),
]


def test_events_of_both_stand_in_the_order_of_time():
    log = list(log_events(LOG))
    both = list(merged(DEVICE, [*log, *call_events(CALLS)], GuestClock.of_log(log)))
    assert [event.point for event in both] == [
        "log", "reset", "log", "log", "cmd", "call", "irq", "call",
    ]  # fmt: skip


class LogGuest:
    """A guest with that log, which may end in between."""

    def __init__(self):
        self.fails = False
        self.console = LOG + "[   12.000000] Kernel panic - not syncing: why\n"

    def mark_clock(self):
        if self.fails:
            raise GuestError("gone")

    def dmesg(self):
        return LOG


def test_a_run_writes_one_trace_of_both(tmp_path):
    path = tmp_path / "trace.json"
    kernel = KernelTrace((), pytest.fail)
    guest = LogGuest()
    kernel.begin(guest)
    kernel.end(guest)
    kernel.write(path, DEVICE)
    events = [TraceEvent.from_json(line) for line in path.read_text().splitlines()]
    assert len(events) == len(DEVICE) + 3
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_part_file_of_the_users_own_stays(tmp_path, fails):
    (tmp_path / "trace.json").write_text("older")
    (tmp_path / "trace.json.part").write_text("precious")
    kernel = KernelTrace((), pytest.fail)
    with pytest.raises(LabError) if fails else contextlib.nullcontext():
        if not fails:
            kernel.begin(LogGuest())
        kernel.write(tmp_path / "trace.json", DEVICE)  # without a log there is no common time
    assert len(list(tmp_path.iterdir())) == 2
    assert (tmp_path / "trace.json.part").read_text() == "precious"
    assert ((tmp_path / "trace.json").read_text() == "older") is fails


def test_a_pipe_or_device_gets_the_events_and_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    kernel = KernelTrace((), pytest.fail)
    kernel.begin(LogGuest())
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        kernel.write(pipe, ())
        text = os.read(reader, 1 << 16).decode()
    finally:
        os.close(reader)
    assert [TraceEvent.from_json(line).point for line in text.splitlines()] == ["log"] * 3
    assert (pipe.is_fifo(), list(tmp_path.iterdir())) == (True, [pipe])


def test_of_a_guest_that_has_ended_the_console_is_taken(tmp_path):
    path = tmp_path / "trace.json"
    kernel = KernelTrace((), pytest.fail)
    guest = LogGuest()
    kernel.begin(guest)
    guest.fails = True
    kernel.end(guest)
    kernel.write(path, DEVICE)
    assert "not syncing: why" in path.read_text().splitlines()[-1]


@pytest.fixture
def home(tmp_path_factory, monkeypatch):
    """A directory with the runtime directory of guests, whose dmesg prints LOG."""
    path = tmp_path_factory.mktemp("r")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    (path / "bin").mkdir()
    (path / "bin" / "dmesg").write_text(f"#!/bin/sh\ncat <<'E'\n{LOG}E\n")
    (path / "bin" / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{path}/bin:/usr/bin:/bin")
    return path


def write(path, events):
    path.write_text("".join(f"{event.to_json()}\n" for event in events))
    return str(path)


@contextlib.contextmanager
def up(home, name, *names, **info):
    """Run a lab of guests, or the one guest ``name``."""
    with contextlib.ExitStack() as stack:
        guests = {
            one: stack.enter_context(FakeGuest(path=f"{home}/bin")) for one in names or (name,)
        }
        claim = stack.enter_context(running.NameClaim(name))
        stack.enter_context(daemon.open_exec_servers(claim, info, guests))
        yield


def test_dmesg_shows_both_by_the_guests_clock(home):
    words = ["dmesg", "one", "--trace", write(home / "trace", DEVICE)]
    with up(home, "one"):
        shown = CliRunner().invoke(main, words)
        stored = CliRunner().invoke(main, [*words, "--json"])
    assert shown.output.splitlines()[:3] == [
        "[    0.000000]  Linux version 6.12",
        "[   10.000100]    f0 reset connectx6",
        "[   10.500000]  mlx5_core 0000:01:00.0: firmware version: 20.43.2000",
    ]
    points = [json.loads(line)["point"] for line in stored.output.splitlines()]
    assert points == ["log", "reset", "log", "log", "cmd", "irq"]


LAB = [
    *(
        TraceEvent(1000 * SECOND, number, "reset", {"model": "connectx6", "guest": guest})
        for number, guest in enumerate(("h1", "h2"))
    ),
    *(TraceEvent(1000 * SECOND + number, number % 2, "irq", {"vector": 0}) for number in range(6)),
]


def test_of_a_lab_dmesg_shows_the_guests_functions(home):
    words = ["dmesg", "lab/h2", "--trace", write(home / "trace", LAB), "--json"]
    with up(home, "lab", "h1", "h2"):
        shown = CliRunner().invoke(main, words).output
    assert {json.loads(line)["function"] for line in shown.splitlines()} == {KERNEL, 1}
    assert shown.count('"irq"') == 3


def test_dmesg_refuses_the_trace_of_guests_that_it_names(home):
    words = ["dmesg", "one", "--trace", write(home / "trace", LAB)]
    with up(home, "one"):
        result = CliRunner().invoke(main, words)
    said = (
        f"mlx5emu: {home}/trace is the trace of h1, h2; one has none: start it with --trace FILE\n"
    )
    assert (result.exit_code, result.output) == (1, said)


def test_a_lab_gets_its_trace_by_its_file(home):
    """`lab up` has no --trace."""
    given = write(home / "given", DEVICE)
    with up(home, "lab", "h1", "h2", lab=True), up(home, "two", trace=given):
        result = CliRunner().invoke(main, ["dmesg", "lab/h1", "--trace", given])
    how = "lab/h1 has none: set `trace` in [server] of the lab's file"
    said = f"mlx5emu: {given} is the trace of two; {how}\n"
    assert (result.exit_code, result.output) == (1, said)


@pytest.mark.parametrize("own", ["own", None])
def test_dmesg_refuses_the_trace_of_another_guest_that_runs(home, own):
    given = write(home / "given", DEVICE)
    (home / "link").symlink_to("given")
    traces = {"trace": str(home / own)} if own else {}
    with up(home, "one", **traces), up(home, "two", trace=given):
        result = CliRunner().invoke(main, ["dmesg", "one", "--trace", str(home / "link")])
        theirs = CliRunner().invoke(main, ["dmesg", "two", "--trace", str(home / "link")])
    how = f"that of one is {home}/own" if own else "one has none: start it with --trace FILE"
    said = f"mlx5emu: {home}/link is the trace of two; {how}\n"
    assert (result.exit_code, result.output) == (1, said)
    assert "f0 reset connectx6" in theirs.output
