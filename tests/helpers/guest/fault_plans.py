"""A plan of examples/faults against a guest's stock driver: what it expects, held against that."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from emu.guests import CommandTimeoutError, Guest, GuestError, GuestOptions, GuestPanicError
from emu.instruments.fuzz.traffic import is_ethernet, with_traffic
from emu.server.control import Client
from helpers.guest.kernel_log import KernelLog

PLANS = Path(__file__).parents[3] / "examples" / "faults"
UNLOAD = "modprobe -r mlx5_ib mlx5_core"
LOAD = "modprobe mlx5_ib"
ACTIVE = "until ibv_devinfo 2>/dev/null | grep -q PORT_ACTIVE; do sleep 0.2; done"
SECONDS_TO_HEAL = 60
SECONDS_TO_FLOW = 120
"""In a guest that has just booted, on a busy machine."""
SLOTS_LEAKED = "loading", "by itself"
"""Plans with commands that time out: their slots are lost until the driver loads again."""
PATIENT = (
    "for function in $(devlink dev | grep -o '^pci/[^ ]*[0-9]'); do for r in fw fw_fatal; do"
    " devlink health set $function reporter $r grace_period 0; done; done; true"
)
"""By default the driver gives up when a fatal error comes back within half a minute."""


class Bench:
    """A guest for plans of one model; made anew when a plan has left it unusable."""

    def __init__(self, suite, model, *, functions=1, **options):
        """Have so many functions or more; ``options`` are further ones of the guest."""
        self._model = model
        devices = (model,) * max(functions, 2 if is_ethernet(model) else 1)
        self.options = GuestOptions(suite=suite, devices=devices, **options)
        self._guest = None

    @property
    def guest(self):
        if self._guest is not None and not self._guest.is_running:
            self.close()
        if self._guest is None:
            self._guest = Guest(self.options)
            self._guest.start()
            with_traffic(self._guest, self._model)
            self._guest.run(PATIENT)
            # A plan counts events of traffic that flows: links are up, neighbours are known.
            assert traffic_flows(self._guest, SECONDS_TO_FLOW)
        return self._guest

    def guest_console(self):
        """All that the console has shown."""
        return self._guest.console

    def close(self):
        if self._guest is not None:
            self._guest.stop()
            self._guest = None


def traffic_flows(guest, seconds):
    """Whether two processes can talk within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            if guest.run("SECONDS_TO_TALK=20 traffic -n 20", timeout=60).status == 0:
                return True
        except CommandTimeoutError:
            pass
        if time.monotonic() > end:
            return False


def errors_of(guest, reporter):
    """The error count of a devlink health reporter."""
    if not reporter:
        return 0
    said = guest.run("devlink -j health", timeout=30).check().stdout
    for reporters in json.loads(said)["health"].values():
        for one in reporters:
            if one["reporter"] == reporter:
                return one["error"]
    return 0


class Outcome:
    """What a plan has brought about."""

    def __init__(self):
        self.status = None
        self.output = ""
        self.missing = []
        self.fired = 0
        self.reported = 0
        self.healed = None
        self.log = []


def carry_out(plan, text, bench):
    """Run a plan and put the guest right again; the outcome."""
    expect, guest, outcome = plan.expect, bench.guest, Outcome()
    log = KernelLog(guest)
    try:
        if expect.when == "loading":
            guest.run(UNLOAD, timeout=120).check()
        before = errors_of(guest, expect.reporter) if expect.when == "loaded" else 0
        with Client(guest.control_socket) as control:
            control.load_plan(text)
            _run(guest, expect, outcome)
            outcome.missing = missing_lines(log, expect)
            outcome.reported = _wait_for_report(guest, expect, before)
            outcome.fired = control.fired()
            control.clear()
        outcome.log = [text for _, text in log.lines()]
        outcome.healed = _heal(bench, expect)
        if outcome.healed != expect.heals or (expect.when, outcome.healed) == SLOTS_LEAKED:
            bench.close()  # the next plan gets a guest that is well
    except GuestPanicError:
        if not expect.panics:
            bench.close()
            raise
        _panicked(bench, expect, outcome)
    except GuestError:
        bench.close()
        raise
    return outcome


def _panicked(bench, expect, outcome):
    """The plan meant it: what the console says, and a new guest that works."""
    outcome.fired, outcome.log = 1, bench.guest_console().splitlines()
    outcome.missing = [
        wanted
        for wanted in expect.dmesg
        if not any(re.search(wanted, line) for line in outcome.log)
    ]
    bench.close()
    outcome.healed = "reboot" if traffic_flows(bench.guest, 10) else "no"


def _run(guest, expect, outcome):
    command = expect.run
    if expect.when == "loading":
        command = f"{LOAD}; {command or 'true'}"
    if command:
        result = guest.run(command, timeout=300)
        outcome.status, outcome.output = result.status, result.stdout + result.stderr


def missing_lines(log, expect):
    """The expressions that no line of the kernel's log has, after all patience."""
    end = time.monotonic() + expect.seconds
    while True:
        lines = [text for _, text in log.lines()]
        missing = [
            wanted for wanted in expect.dmesg if not any(re.search(wanted, line) for line in lines)
        ]
        if not missing or time.monotonic() > end:
            return missing
        time.sleep(0.3)


def _wait_for_report(guest, expect, before):
    """How many errors the reporter counts more than before, after all patience."""
    end = time.monotonic() + expect.seconds
    while True:
        counted = errors_of(guest, expect.reporter) - before
        if counted or not expect.reporter or time.monotonic() > end:
            return counted
        time.sleep(0.3)


def _heal(bench, expect):
    """What brought traffic back: the expected remedy, or none."""
    guest = bench.guest
    if expect.heals == "by itself":
        return "by itself" if traffic_flows(guest, SECONDS_TO_HEAL) else "no"
    if traffic_flows(guest, 0):
        return "by itself"
    if expect.heals == "reload":
        guest.run(f"{UNLOAD}; {LOAD}; timeout 30 sh -c '{ACTIVE}'; {PATIENT}", timeout=240)
        if traffic_flows(guest, 10):
            return "reload"
    bench.close()
    return "reboot" if traffic_flows(bench.guest, 10) else "no"


def problems(plan, outcome):
    """In what the outcome is not what the plan expects."""
    expect = plan.expect
    found = []
    if expect.panics and outcome.healed != "reboot":
        found.append("the kernel did not panic")
    if not outcome.fired:
        found.append("no rule has fired")
    if outcome.status is not None and expect.status is not None:
        as_wanted = outcome.status != 0 if expect.status < 0 else outcome.status == expect.status
        if not as_wanted:
            found.append(f"status {outcome.status}, expected {expect.status}")
    if expect.says and not re.search(expect.says, outcome.output):
        found.append(f"the command does not say {expect.says!r}: {outcome.output[-500:]}")
    found += [f"dmesg has no line with {wanted!r}" for wanted in outcome.missing]
    if expect.reporter and not outcome.reported:
        found.append(f"the reporter {expect.reporter} has counted no error")
    if outcome.healed != expect.heals:
        found.append(f"healed: {outcome.healed}, expected {expect.heals}")
    return found
