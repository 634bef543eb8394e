"""A process that carries runs out: a description a line on its input, a result a line as answer.

``python -m emu.instruments.campaign.worker MODULE:FUNCTION``; the function takes a description and
returns a result. A process of its own because a run may take its process with it, and because the
kernel ends a guest's processes only with the main thread that has started them. When its input
ends, so does it, with the guest that it has: whoever has started it is gone.
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
    """The function that ``MODULE:FUNCTION`` names."""
    module, _, function = name.partition(":")
    return cast(Runner, getattr(importlib.import_module(module), function))


def main() -> None:
    """Serve standard input to its end."""
    (name,) = sys.argv[1:]
    # A run's own words must not come between the results.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    runner = find_runner(name)
    for text in _lines(sys.stdin.fileno()):
        result = carry_out(runner, Description.model_validate_json(text))
        answers.write(result.model_dump_json().encode() + b"\n")


def carry_out(runner: Runner, run: Description) -> RunResult:
    """A run's result; an exception is told as one that could not be carried out."""
    try:
        return runner(run)
    except UserError as error:
        why = str(error)
    except Exception as error:
        logger.exception("run %s", run.name)
        why = repr(error)
    return RunResult(name=run.name, ended=Ended.ERROR, why=one_line(why))


def _lines(descriptor: int) -> Iterator[bytes]:
    """Lines as they come; their end ends the process, whatever it is doing."""
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
    sys.exit(128 + number)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    main()
