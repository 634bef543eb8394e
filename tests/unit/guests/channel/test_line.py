"""The port as a serial line: a terminal passes bytes as they are only when it is told to."""

import os
import pty
import select

from emu.guests.inside.runner import open_line


def test_bytes_pass_as_they_are_and_are_not_echoed():
    ours, theirs = pty.openpty()
    line = open_line(os.ttyname(theirs))
    try:
        everything = bytes(range(256))
        os.write(ours, everything)
        assert os.read(line, 4096) == everything
        assert not select.select([ours], [], [], 0)[0]
        os.write(line, everything)
        assert os.read(ours, 4096) == everything
    finally:
        for fd in (ours, theirs, line):
            os.close(fd)
