"""The worker process: reads a description per line on stdin, writes a result per line on stdout.

``python -m emu.instruments.campaign.worker MODULE:FUNCTION``; the function maps a description to a
result. A run has its own process, as it may crash this process. The kernel also kills a guest's
processes when the main thread that started them ends (PR_SET_PDEATHSIG). At end of input the parent
has ended; the worker and its guest end, too.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn, cast

from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.instruments.campaign.description import Description, Ended, RunResult

logger = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
_CHUNK = 1 << 20
Runner = Callable[[Description], RunResult]


def find_runner(name: str) -> Runner:
    """Return the function that ``MODULE:FUNCTION`` names."""
    module, _, function = name.partition(":")
    return cast(Runner, getattr(importlib.import_module(module), function))


def main() -> None:
    """Serve the descriptions on standard input until its end, or until 300 s pass without one.

    SIGTERM ends the process. Prints of a run go to standard error.
    """
    (name,) = sys.argv[1:]
    # Prints of a run go to stderr; stdout carries only results.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    runner = find_runner(name)
    for text in _lines(sys.stdin.fileno()):
        result = carry_out(runner, Description.model_validate_json(text))
        answers.write(result.model_dump_json().encode() + b"\n")
    signal.signal(signal.SIGTERM, _stay)


def carry_out(runner: Runner, run: Description) -> RunResult:
    """Carry out a run and return its result; an exception becomes the result :attr:`Ended.ERROR`.

    UserError gives its message; other exceptions are logged with their traceback.
    """
    try:
        return runner(run)
    except UserError as error:
        why = str(error)
    except Exception as error:
        logger.exception("run %s", run.name)
        why = repr(error)
    return RunResult(name=run.name, ended=Ended.ERROR, why=one_line(why))


def _lines(descriptor: int) -> Iterator[bytes]:
    """Yield input lines; return after :data:`IDLE_SECONDS` without one.

    At end of input a thread sends SIGTERM to this process, also during a run.
    """
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        data = b""
        while chunk := os.read(descriptor, _CHUNK):
            *whole, data = (data + chunk).split(b"\n")
            for line in whole:
                lines.put(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, name="input", daemon=True).start()
    while True:
        try:
            yield lines.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            return


def _leave(number: int, _frame: object) -> NoReturn:
    """End the process. Later signals neither interrupt its end nor print a traceback."""
    signal.signal(number, _stay)
    sys.exit(128 + number)


def _stay(_number: int, _frame: object) -> None:
    """Do nothing. Python reports a pending signal that becomes SIG_IGN; thus this is a function."""


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main()
