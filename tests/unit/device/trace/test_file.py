"""The file under a trace: written at once, and never waited for."""

import logging
import os
from contextlib import closing

import pytest

from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.world.clock import HandClock
from emu.server.service.trace_file import FORMS, Trace, TraceFile


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def reader(pipe):
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("form", FORMS)
def test_functions_share_a_file_and_nothing_is_held_back(tmp_path, form):
    path = tmp_path / "trace"
    path.write_text("what was there before")
    with closing(Trace(path, form)) as trace:
        first, second = trace.recorder(0, HandClock()), trace.recorder(1, HandClock())
        first.irq(0, 1)
        second.irq(0, 1)
        assert len(path.read_text().splitlines()) == 2


def test_directory_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        Trace(tmp_path / "no" / "trace", "json")


def test_pipe_that_nobody_reads(pipe):
    with pytest.raises(OSError, match="No such device"):
        TraceFile(pipe)


def ends_badly(path):
    """A trace whose file takes nothing more; what is said of it."""
    with closing(Trace(path, "json")) as trace:
        recorder = trace.recorder(0, HandClock())
        for _ in range(1 << 16):
            recorder.irq(0, 1)
        assert not recorder
    return trace.complaint


def test_reader_that_is_slow_ends_the_trace(pipe, reader, caplog):
    assert ends_badly(pipe).endswith("is not complete: Resource temporarily unavailable")
    assert "the trace ends here" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_reader_that_goes_ends_the_trace(pipe, reader, caplog):
    with closing(Trace(pipe, "text")) as trace:
        recorder = trace.recorder(0, HandClock())
        recorder.irq(0, 1)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), reader)
        recorder.irq(0, 1)
        recorder.irq(0, 1)
        assert not recorder
    assert caplog.text.count("Broken pipe") == 1
    assert not trace.complaint


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_full_disk(caplog):
    assert ends_badly("/dev/full") == (
        "the trace /dev/full is not complete: No space left on device"
    )
    assert "No space left on device" in caplog.text


def test_it_ends_at_its_size_with_a_whole_line(tmp_path, caplog):
    path = tmp_path / "trace"
    with closing(Trace(path, "json", 1)) as trace:
        recorder = trace.recorder(0, HandClock())
        while recorder:
            recorder.irq(0, 1)
    assert not trace.complaint
    text = path.read_text()
    assert (1 << 20) - 200 < len(text) <= 1 << 20
    assert text.endswith("}\n")
    assert "the trace ends here, the device continues: the limit of 1 MiB is reached" in caplog.text


def test_events_count_among_the_steps_of_a_round(tmp_path):
    """As writing them takes longer than what they tell of."""
    clock = HandClock()
    with closing(Trace(tmp_path / "trace", "json")) as trace:
        recorder = trace.recorder(0, clock)
        for _ in range(POLL_BUDGET // 10):
            recorder.irq(0, 1)
    assert clock.budget.exhausted(POLL_BUDGET)
