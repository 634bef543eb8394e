"""The console's log is a file of limited size."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.guests.guest.console_log import HEAD, TAIL, BoundedFile, ConsoleLog

NOTE = re.compile(rb"\n\[(\d+) bytes of the console are left out here\]\n")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("console") / "log"


@given(st.lists(st.binary(min_size=1, max_size=90), max_size=40))
def test_start_and_end_are_kept(scratch, parts):
    head, tail = 100, 200
    file, said = BoundedFile(scratch, head, tail), b""
    for part in parts:
        file.write(part)
        said += part
        kept = scratch.read_bytes()
        assert len(kept) <= head + 2 * tail
        if len(said) <= head + 2 * tail:
            assert kept == said
            continue
        note = NOTE.search(kept, head)
        assert note.start() == head
        assert kept[:head] == said[:head]
        end = kept[note.end() :]
        assert len(end) >= tail
        assert said.endswith(end)
        assert int(note[1]) == len(said) - head - len(end)
    file.close()


def writer(log, program):
    """A process with the pipe, as QEMU has it: it opens the file name that it is given."""
    command = [sys.executable, "-c", program, str(log.path)]
    process = subprocess.Popen(command, pass_fds=(log.fd,))
    log.started()
    return process


def test_what_a_process_writes(tmp_path):
    log = ConsoleLog(tmp_path / "log")
    program = "import sys; open(sys.argv[1], 'wb', buffering=0).write(b'one line\\n')"
    assert writer(log, program).wait() == 0
    log.flush()
    assert (tmp_path / "log").read_bytes() == b"one line\n"
    log.close()
    log.close()


def test_days_of_output(tmp_path):
    log = ConsoleLog(tmp_path / "log")
    program = """
import sys
file = open(sys.argv[1], "wb", buffering=0)
for number in range(40):
    file.write(b"%07d\\n" % number * (1 << 17))
"""
    assert writer(log, program).wait() == 0
    log.close()
    kept = (tmp_path / "log").read_bytes()
    assert HEAD + TAIL < len(kept) <= HEAD + 2 * TAIL
    assert kept.startswith(b"0000000\n")
    assert kept.endswith(b"0000039\n")
    assert NOTE.search(kept, HEAD - 1)


def test_a_guest_that_never_started(tmp_path):
    gc.collect()  # objects of earlier tests may have descriptors
    before = os.listdir("/proc/self/fd")
    log = ConsoleLog(tmp_path / "log")
    log.close()
    assert (tmp_path / "log").read_bytes() == b""
    assert len(os.listdir("/proc/self/fd")) <= len(before)
