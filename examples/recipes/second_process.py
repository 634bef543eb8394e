"""The second process of a recipe's program, which owns the remote memory."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class SecondProcess:
    """A process that runs ``serve``; ``sent`` is the first object that it sends.

    Exits with status 1 if the process ends before it has sent anything.
    """

    def __init__(self, serve: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.sent: Any = self._pipe.recv()
        except EOFError:
            sys.exit("the server ended")

    def end(self) -> None:
        """Send "done", and wait up to 10 s for the process."""
        self._pipe.send("done")
        self._process.join(10)
