"""``mlx5emu run``: boots a guest, runs one command in it, exits with its status."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
from pathlib import Path

import click
import cloup

from emu.cli.options.coverage import (
    CoverageRequest,
    check_modules,
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
from emu.cli.options.groups import COMMAND, grouped_option
from emu.cli.options.guest import (
    described,
    guest_options,
    to_options,
)
from emu.cli.options.place import (
    in_share,
    place_options,
    tell_not_run,
    with_share,
)
from emu.cli.options.results import results_options
from emu.cli.runs.fired import tell_fired, tell_unfired
from emu.cli.runs.judged import Judged, judge_options
from emu.cli.runs.unplaced import tell_unplaced
from emu.cli.shared.names import new_name
from emu.cli.shared.output import feed, tell_unread
from emu.cli.shared.params import SECONDS
from emu.cli.shared.progress import display
from emu.guests import Guest
from emu.guests.named import daemon, running
from emu.guests.options import Use
from emu.instruments.outcome import FailOn
from emu.instruments.outcome.objects import MIN_REPETITIONS


@cloup.command(
    short_help="Boot a guest and run one command in it.",
    context_settings={"allow_interspersed_args": False},
)
@guest_options(Use.RUN)
@place_options
@coverage_options
@debug_options
@results_options
@judge_options
@grouped_option(
    COMMAND,
    "--timeout",
    type=SECONDS,
    metavar="S",
    help="End COMMAND after S seconds.",
)
@grouped_option(
    COMMAND,
    "--name",
    metavar="NAME",
    callback=new_name,
    help="Name of the guest for `exec` and `dmesg`.  [default: run-PID]",
)
@grouped_option(COMMAND, "--stdin", is_flag=True, help="Pass standard input on to the command.")
@grouped_option(
    COMMAND, "-v", "--verbose", is_flag=True, help="Show the console and the server's log."
)
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
    repeat: int | None,
    **choices: object,
) -> None:
    """Run COMMAND as root in a guest with emulated functions.

    The working directory, or that of --share, is mounted read-only at /mnt/share, and COMMAND
    starts there.

    Output and exit status are those of COMMAND. Status 122: COMMAND succeeded, but the kernel
    logged a failure (--fail-on) or objects are left (--check-leaks). Status 123: the device server
    ended, or a full disk truncated its trace, capture or record. Status 124: a timeout, or the
    guest hangs. Status 125: the guest panicked or ended early.

    --junit and --tap write COMMAND's result as one test, also if the guest fails. Status 4 of
    COMMAND means skipped, the same as with kernel selftests.

    --faults begins with the boot, or once the driver is up if the plan or --faults-when says so.
    The faults that fired are printed at the end, and the driver's first warnings and errors.

    --dmesg and --ftrace need --trace; its file then has device and kernel events in one time line.

    Example: mlx5emu run -- ./reproducer
    """
    if stdin and (check_leaks or repeat):
        raise click.UsageError("--stdin needs a single run: drop --check-leaks and --repeat")
    choices = with_share(choices, no_share=no_share)
    options = to_options(**with_coverage(with_debugging(choices, debugging), coverage))
    check_modules(options, coverage)
    argv = in_share(words, cwd, options)
    if check_leaks and not options.devices:
        raise click.UsageError("--check-leaks counts objects of a function: drop --no-device")
    repeat = (MIN_REPETITIONS if check_leaks else 0) if repeat is None else repeat
    if check_leaks and repeat < MIN_REPETITIONS:
        raise click.UsageError(f"--check-leaks needs --repeat {MIN_REPETITIONS} or more")
    name = name or f"run-{os.getpid()}"
    judged = Judged(words, FailOn(fail_on), (junit_file, tap_file))
    with contextlib.ExitStack() as stack:
        debugger = Debugger(debugging, options.trace)
        stack.callback(debugger.finish)
        claim = stack.enter_context(running.NameClaim(name))
        with display() as (progress, on_wait):
            guest = Guest(options, progress=progress, on_wait=on_wait)
            with judged.telling(guest):
                stack.enter_context(guest)
        if options.faults is not None:
            stack.callback(judged.tell_driver)  # called after the next one
            stack.callback(tell_fired, guest.record)
        stack.enter_context(
            daemon.open_exec_servers(claim, described(options, name), {name: guest})
        )
        with judged.telling(guest), debugger.watching(guest), covered(guest, coverage):

            def run_once() -> int:
                job = guest.popen(argv, has_input=stdin, sink=judged.sink)
                job.name = shlex.join(words)  # without the words that set its directory
                if stdin:
                    threading.Thread(target=feed, args=(job,), name="stdin", daemon=True).start()
                return guest.wait(job, timeout)

            status = judged.run_repeatedly(guest, run_once, repeat, check=check_leaks)
            status = judged.concluded(guest, status)
            tell_unplaced(guest.log_files.get("server"))
            if not stdin:
                tell_unread()
            if options.faults is not None:
                tell_unfired(guest.control_socket)
            tell_not_run(status, words, options.share, cwd)
    if guest.server_failure is not None and not status:
        raise guest.server_failure  # its trace, capture or record is incomplete
    sys.exit(status)
