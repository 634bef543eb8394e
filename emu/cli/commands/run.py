"""``mlx5emu run``: boot a guest, run one command in it, end with its status."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from emu.cli.commands._coverage_options import (
    Wanted,
    coverage_options,
    covered,
    with_coverage,
)
from emu.cli.commands._debug_options import (
    Debugger,
    Debugging,
    debug_options,
    with_debugging,
)
from emu.cli.commands._fired import tell_fired
from emu.cli.commands._guest_options import (
    described,
    dump_option,
    guest_options,
    to_options,
)
from emu.cli.commands._output import feed, pass_on
from emu.cli.commands._progress import display
from emu.cli.commands._results_options import results_options, write_results
from emu.lab import Guest
from emu.lab.conformance.results import of_status
from emu.lab.named import keeper, running


@click.command(context_settings={"allow_interspersed_args": False})
@guest_options
@dump_option
@coverage_options
@debug_options
@results_options
@click.option("--timeout", type=float, metavar="S", help="End a command that takes longer.")
@click.option("--name", help="The guest's name for `exec`, `dmesg`.  [default: run-PID]")
@click.option("--stdin", is_flag=True, help="Give the command our standard input.")
@click.option("-v", "--verbose", is_flag=True, help="Show the console and the server's log.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    words: tuple[str, ...],
    timeout: float | None,
    name: str | None,
    stdin: bool,
    coverage: Wanted,
    debugging: Debugging,
    junit_file: Path | None,
    tap_file: Path | None,
    **choices: Any,
) -> None:
    """Run COMMAND as root in a guest with emulated functions.

    Output and exit status are the command's own. A guest that panics or ends early gives status
    125, a timeout or a guest that hangs 124, a device server that ends 123.

    --junit and --tap write COMMAND's result as one test; as with kernel selftests, status 4 says
    that it was skipped. A guest that fails leaves no file.

    --dmesg and --ftrace need --trace: its file has device and kernel on one time line then.
    """
    if timeout is not None and timeout <= 0:
        raise click.BadParameter("more than 0 s", param_hint="--timeout")
    options = to_options(**with_coverage(with_debugging(choices, debugging), coverage))
    name = name or f"run-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        debugger = Debugger(debugging, options.trace)
        stack.callback(debugger.finish)
        claim = stack.enter_context(running.Claim(name))
        with display() as (progress, on_wait):
            guest = stack.enter_context(Guest(options, progress=progress, on_wait=on_wait))
        stack.enter_context(keeper.open_doors(claim, described(options), {name: guest}))
        with debugger.watching(guest), covered(guest, coverage):
            job = guest.popen(words, has_input=stdin, sink=pass_on)
            if stdin:
                threading.Thread(target=feed, args=(job,), name="stdin", daemon=True).start()
            started = time.monotonic()
            status = guest.wait(job, timeout)
            case = of_status(shlex.join(words), status, time.monotonic() - started)
        write_results([case], junit_file, tap_file)
        if options.faults is not None:
            tell_fired(guest.record)
    sys.exit(status)
