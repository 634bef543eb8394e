"""The executor over a pretended guest: what it reports, and when it takes a fresh one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emu.device.faults.parser import load
from emu.device.faults.plan import Plan
from emu.guests import GuestOptions
from emu.guests.errors import CommandTimeoutError, GuestPanicError, LabError
from emu.instruments.fuzz import executor
from emu.instruments.fuzz.executor import GuestExecutor
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.watcher import FuzzWatcher

WARNED = "[    1.0] WARNING: CPU: 0 PID: 1 at drivers/x.c:4 mlx5_odd+0x1/0x2 [mlx5_core]\n"
SECTIONS = "mlx5_core .text 0xffffffffc0600000\nmlx5_ib .text 0xffffffffc0800000\n"
ONE = Input(Plan(), "probe")


class PretendedGuest:
    """Answers as the world of the test says; each one that is made is noted there."""

    kernel_release = "6.12"
    control_socket = "nowhere"

    def __init__(self, options, progress=None, on_wait=None):
        self.heard = progress, on_wait
        self.options, self.is_running, self.console = options, True, WORLD.console
        self.log_files = {}
        WORLD.guests.append(self)

    def start(self):
        pass

    def stop(self):
        self.is_running = False

    def run(self, command, timeout, **_):
        if isinstance(command, str):
            return SimpleNamespace(status=0, check=lambda: self, stdout=SECTIONS)
        if command[1] == "reset":
            return SimpleNamespace(status=WORLD.resets.pop(0) if WORLD.resets else 0)
        WORLD.limits.append(timeout)
        answer = WORLD.answers.pop(0)
        if isinstance(answer, Exception):
            self.is_running = not isinstance(answer, GuestPanicError)
            raise answer
        return SimpleNamespace(status=0, stdout=answer)

    stdout = SECTIONS


class PretendedControl:
    def __init__(self, _path):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def load_plan(self, text):
        WORLD.plans.append(text)

    def clear(self):
        WORLD.plans.append("")

    def rules(self):
        return [
            {"name": "rule-1", "counts": [{"met": 1, "fired": 0}, {"met": 4, "fired": 2}]},
            {"name": "rule-2", "counts": [{"met": 0, "fired": 0}]},
        ]


class PretendedBlocks:
    def arguments(self):
        return ("-plugin", "none")

    def clear(self):
        pass

    def executed(self):
        return [(0xFFFFFFFFC0600040, 4)]

    def close(self):
        pass


WORLD = SimpleNamespace()


@pytest.fixture(autouse=True)
def world(monkeypatch):
    WORLD.__dict__.update(guests=[], resets=[], answers=[], plans=[], limits=[], console=WARNED)
    monkeypatch.setattr(executor, "Guest", PretendedGuest)
    monkeypatch.setattr(executor, "Client", PretendedControl)
    monkeypatch.setattr(executor, "BlockMap", PretendedBlocks)
    return WORLD


@pytest.fixture
def running():
    made = GuestExecutor(GuestOptions())
    yield made
    made.close()


def test_a_quiet_turn_tells_blocks_and_what_fired(running, world):
    world.answers = ["[    1.0] mlx5_core: hello\n", ""]
    feedback = running.run(ONE)
    assert feedback.blocks == {("mlx5_core", 0x40)}
    assert feedback.fired == {"rule-1"}
    assert feedback.met == {"rule-1": 5, "rule-2": 0}
    assert (feedback.titles, feedback.log) == ((), "")
    running.run(ONE)
    assert len(world.guests) == 1
    assert world.plans[1::2] == ["", ""]


def test_the_watcher_is_told_of_boots_and_of_each_input(world):
    """Minutes can pass between two lines of the run."""
    said = []
    watcher = FuzzWatcher(lambda *_: None, lambda: None, said.append)
    world.answers = ["", ""]
    made = GuestExecutor(GuestOptions(), watcher=watcher)
    made.run(ONE)
    made.run(ONE)
    made.close()
    assert world.guests[0].heard == (watcher.progress, watcher.on_wait)
    assert said == ["loading the driver", *[f"the guest does {ONE.workload}"] * 2]


def test_the_guest_is_emulated_and_probes_nothing_by_itself(running, world):
    world.answers = [""]
    running.run(ONE)
    options = world.guests[0].options
    assert (options.probe, options.accelerator) == (False, "tcg")
    assert options.qemu_arguments == ("-plugin", "none")


def test_a_warning_is_a_finding_and_the_guest_goes_on(running, world):
    world.answers = [WARNED, ""]
    assert running.run(ONE).titles == ("WARNING in mlx5_odd",)
    assert running.run(ONE).titles == ()
    assert len(world.guests) == 1


def test_a_guest_that_panics_is_replaced_and_its_console_read(running, world):
    world.answers = [GuestPanicError("the guest panicked"), ""]
    told = running.run(ONE)
    assert (told.titles, told.is_lost) == (("WARNING in mlx5_odd",), True)
    running.run(ONE)
    assert (len(world.guests), running.boots) == (2, 2)


def test_what_the_console_has_shown_before_the_turn_is_not_its_own(running, world):
    world.answers = [GuestPanicError("the guest panicked")]
    running.run(ONE)
    world.answers = [GuestPanicError("the guest panicked")]
    world.console = WARNED + "mlx5emu: fuzz-turn probe\n" + WARNED.replace("odd", "new")
    assert running.run(ONE).titles == ("WARNING in mlx5_new",)


def test_a_panic_that_an_oops_has_caused_is_no_title(running, world):
    world.answers = [GuestPanicError("the guest panicked")]
    world.console = (
        "BUG: kernel NULL pointer dereference, address: 0000000000000044\n"
        "RIP: 0010:mlx5_odd+0x1/0x2 [mlx5_core]\n---[ end trace 0000000000000000 ]---\n"
        + WARNED
        + "Kernel panic - not syncing: Fatal exception in interrupt\n"
    )
    titles = running.run(ONE).titles
    assert titles[0].endswith("NULL pointer dereference in mlx5_odd")
    assert not any("panic" in title for title in titles)


def test_a_driver_that_does_not_come_back_is_no_finding_by_itself(running, world):
    world.answers = [CommandTimeoutError("too long"), ""]
    told = running.run(ONE)
    assert told.titles == ()
    assert told.is_stuck
    assert running.stuck == 1
    running.run(ONE)
    assert len(world.guests) == 2


def test_the_driver_may_take_a_few_times_longer_than_without_faults(running, world, monkeypatch):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(executor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    faulty = Input(load('[[rule]]\npoint = "cmd"\naction = "fail"\n'), "probe")
    world.answers = ["", "", ""]
    for one in (faulty, ONE, faulty):
        running.run(one)
    assert world.limits == [300, 300, 10 + 4 * 5]


def test_a_function_that_is_still_bound_takes_a_fresh_guest(running, world):
    world.answers, world.resets = [""], [3, 0]
    running.run(ONE)
    assert len(world.guests) == 2


def test_a_guest_that_cannot_be_reset_at_all_ends_the_run(running, world):
    world.resets = [3, 3]
    with pytest.raises(LabError, match="even in a new guest"):
        running.run(ONE)
