"""Two connected queue pairs of a process in a guest, which write to each other when told to."""

from __future__ import annotations

import time
from pathlib import Path

PAIR = (Path(__file__).parents[2] / "guest" / "inside" / "pair.py").read_text()
SECONDS = 60


class Pair:
    """``tests/guest/inside/pair.py``, running."""

    def __init__(self, guest):
        self._guest = guest
        self._job = guest.popen(["python3", "-c", PAIR], has_input=True)
        (self.qpn,) = map(int, self._lines(1))

    def _lines(self, count):
        end = time.monotonic() + SECONDS
        while bytes(self._job.stdout).count(b"\n") < count:
            assert self._job.status is None, bytes(self._job.stderr).decode()
            assert time.monotonic() < end
            self._guest.run("sleep 0.05").check()
        return bytes(self._job.stdout).decode().splitlines()[:count]

    def write(self, count):
        done = len(bytes(self._job.stdout).splitlines())
        self._job.write(b"\n" * count, SECONDS)
        self._lines(done + count)

    def end(self):
        self._job.close_input()
        assert self._guest.wait(self._job, SECONDS) == 0
