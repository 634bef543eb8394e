"""``mlx5emu run``: boot a guest, run one command in it, end with its status."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
from pathlib import Path

import click

from emu.cli.options.coverage import (
    CoverageRequest,
    coverage_options,
    covered,
    with_coverage,
)
from emu.cli.options.debug import (
    Debugger,
    Debugging,
    debug_options,
    with_debugging,
)
from emu.cli.options.guest import (
    described,
    guest_options,
    to_options,
)
from emu.cli.options.place import NOT_FOUND, in_share, place_options, tell_missing, with_share
from emu.cli.options.results import results_options
from emu.cli.runs.fired import tell_fired, tell_unfired
from emu.cli.runs.judged import Judged, judge_options
from emu.cli.shared.names import new_name
from emu.cli.shared.output import feed
from emu.cli.shared.progress import display
from emu.guests import Guest
from emu.guests.named import daemon, running
from emu.guests.options import Use
from emu.instruments.outcome import FailOn
from emu.instruments.outcome.objects import MIN_TURNS


@click.command(context_settings={"allow_interspersed_args": False})
@guest_options(Use.RUN)
@place_options
@coverage_options
@debug_options
@results_options
@judge_options
@click.option("--timeout", type=float, metavar="S", help="End a command that takes longer.")
@click.option(
    "--name",
    callback=new_name,
    help="The guest's name for `exec`, `dmesg`.  [default: run-PID]",
)
@click.option("--stdin", is_flag=True, help="Give the command our standard input.")
@click.option("-v", "--verbose", is_flag=True, help="Show the console and the server's log.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    words: tuple[str, ...],
    timeout: float | None,
    name: str | None,
    stdin: bool,
    cwd: str | None,
    no_share: bool,
    coverage: CoverageRequest,
    debugging: Debugging,
    junit_file: Path | None,
    tap_file: Path | None,
    fail_on: str,
    check_leaks: bool,
    turns: int | None,
    **choices: object,
) -> None:
    """Run COMMAND as root in a guest with emulated functions.

    The guest sees the working directory at /mnt/share, read-only, and COMMAND begins there:
    `mlx5emu run -- ./reproducer`. With --share it is another directory.

    Output and exit status are the command's own, or 122 if it succeeds and the guest's kernel has
    logged a failure (--fail-on), or objects are left (--check-leaks). A guest that panics or ends
    early gives status 125, a timeout or a guest that hangs 124, a device server that ends 123, and
    so does one whose trace, capture or record a full disk has cut short.

    --junit and --tap write COMMAND's result as one test, whatever has become of the guest; as with
    kernel selftests, status 4 says that it was skipped.

    --faults begins with the boot, or once the driver is up if the plan or --faults-when says so.

    --dmesg and --ftrace need --trace: its file has device and kernel on one time line then.
    """
    if timeout is not None and timeout <= 0:
        raise click.BadParameter("more than 0 s", param_hint="--timeout")
    if stdin and (check_leaks or turns):
        raise click.UsageError("--stdin is for a command that runs once")
    choices = with_share(choices, no_share=no_share)
    options = to_options(**with_coverage(with_debugging(choices, debugging), coverage))
    if check_leaks and not options.devices:
        raise click.UsageError("--check-leaks counts what is in a function")
    turns = (MIN_TURNS if check_leaks else 0) if turns is None else turns
    if check_leaks and turns < MIN_TURNS:
        raise click.UsageError(f"--check-leaks compares {MIN_TURNS} turns at least")
    name = name or f"run-{os.getpid()}"
    judged = Judged(words, FailOn(fail_on), (junit_file, tap_file))
    with contextlib.ExitStack() as stack:
        debugger = Debugger(debugging, options.trace)
        stack.callback(debugger.finish)
        claim = stack.enter_context(running.Claim(name))
        with display() as (progress, on_wait):
            guest = Guest(options, progress=progress, on_wait=on_wait)
            with judged.telling(guest):
                stack.enter_context(guest)
        if options.faults is not None:
            stack.callback(tell_fired, guest.record)
        stack.enter_context(daemon.open_exec_servers(claim, described(options), {name: guest}))
        with judged.telling(guest), debugger.watching(guest), covered(guest, coverage):

            def turn() -> int:
                argv = in_share(words, cwd, options)
                job = guest.popen(argv, has_input=stdin, sink=judged.sink)
                job.name = shlex.join(words)  # without what puts it in its directory
                if stdin:
                    threading.Thread(target=feed, args=(job,), name="stdin", daemon=True).start()
                return guest.wait(job, timeout)

            status = judged.turns(guest, turn, turns, check=check_leaks)
            status = judged.concluded(guest, status)
            if options.faults is not None:
                tell_unfired(guest.control_socket)
            if status == NOT_FOUND:
                tell_missing(words, options)
    if guest.server_failure is not None and not status:
        raise guest.server_failure  # a file of it is not complete
    sys.exit(status)
