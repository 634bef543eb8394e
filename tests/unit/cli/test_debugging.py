"""The kernel's events in the file of --trace."""

from __future__ import annotations

import errno
import os

import click
import pytest

from emu.cli.options.debug import Debugger, Debugging, with_debugging
from emu.device.trace.event import TraceEvent
from emu.guests.errors import ServerError
from emu.guests.guest import kernel_trace

BOTH = Debugging(None, dmesg=True)
EVENT = TraceEvent(5, 0, "irq", {"vector": 0})


@pytest.fixture
def written(monkeypatch):
    """What is added to a trace: the device's events, as they are given to be written."""
    given = []
    monkeypatch.setattr(kernel_trace.KernelTrace, "write", lambda _, *args: given.append(args))
    return given


def test_a_full_disk_is_reported_as_for_a_trace_of_the_device(tmp_path, monkeypatch):
    def write(_kernel, _trace, device):
        assert [*device] == [EVENT]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kernel_trace.KernelTrace, "write", write)
    trace = tmp_path / "trace.json"
    trace.write_text(f"{EVENT.to_json()}\n")
    with pytest.raises(ServerError, match=f"^{trace}: No space left on device$") as caught:
        Debugger(BOTH, trace).finish()
    assert caught.value.status == 123


def test_events_are_not_read_back_from_a_pipe_or_device(tmp_path, written):
    """A reader of the pipe would wait for a writer."""
    os.mkfifo(tmp_path / "pipe")
    Debugger(BOTH, tmp_path / "pipe").finish()
    [(path, device)] = written
    assert (path, [*device]) == (tmp_path / "pipe", [])


def test_a_trace_that_was_not_begun_is_not_written(tmp_path, written):
    Debugger(BOTH, tmp_path / "trace").finish()
    assert written == []


def test_a_pipe_is_refused_before_the_boot(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(click.UsageError, match=f"^{pipe} is a pipe: --dmesg and --ftrace add"):
        with_debugging({"trace": pipe, "probe": True}, BOTH)
    assert with_debugging({"trace": pipe, "probe": True}, Debugging(None))["trace"] == pipe
