"""replay and minimize with guests that are not there: which plans are tried, and what is said."""

from __future__ import annotations

import json
from itertools import count
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.runs import replaying
from emu.cli.runs.fired import tell_again
from emu.device.faults import record
from emu.device.faults.parser import load
from emu.device.faults.record import Fired
from emu.guests import CommandTimeoutError, GuestHungError, GuestPanicError

NAMES = [f"r{number}" for number in range(10)]
CULPRIT = ("r6", 4)
PLAN = load("".join(f'[[rule]]\nname="{name}"\npoint="irq"\naction="drop"\n' for name in NAMES))


@pytest.fixture
def recorded(tmp_path):
    """A record in which each of ten rules fired three times."""
    path = tmp_path / "record"
    run = {"suite": "sid", "packages": ["bc", "fio"], "kernel": None}
    head = record.head(PLAN, {}, ["connectx7-vf"], run)
    fired = [Fired(0, name, n, "irq", "drop") for n in (2, 4, 9) for name in NAMES]
    path.write_text(record.line(head) + "".join(one.to_line() for one in fired))
    return path


class FakeGuest:
    """Its command fails when its plan has the culprit; its record says that all has fired."""

    tried = ()
    end = staticmethod(lambda: None)

    def __init__(self, options, **_shown):
        self.options = options
        self.plan = load(options.faults.read_text())
        type(self).tried += (self,)

    def start(self):
        fired = [Fired(0, rule.name, n, "irq", "drop") for rule in self.plan.rule
                 for n in rule.index]  # fmt: skip
        lines = record.line(record.head(self.plan, {}, [], {}))
        self.options.record.write_text(lines + "".join(one.to_line() for one in fired))

    def popen(self, words, sink):
        self.words = words
        return SimpleNamespace(name=" ".join(words))

    def wait(self, _job, _timeout):
        self.end()
        faults = {(rule.name, n) for rule in self.plan.rule for n in rule.index}
        return int(CULPRIT in faults)

    def stop(self):
        pass


@pytest.fixture
def guest(monkeypatch):
    fake = type("Fake", (FakeGuest,), {"tried": ()})
    monkeypatch.setattr(replaying, "Guest", fake)
    return fake


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_replay_boots_a_guest_like_the_recorded_one(recorded, guest):
    result = run("replay", recorded, "--", "test-program", "-x")
    assert result.exit_code == 1
    (tried,) = guest.tried
    assert (tried.options.suite, tried.options.devices) == ("sid", ("connectx7-vf",))
    assert tried.options.packages == ("bc", "fio")
    assert [*tried.words] == ["env", "--chdir=/mnt/share", "test-program", "-x"]
    assert [(rule.name, rule.index) for rule in tried.plan.rule] == [
        (name, [2, 4, 9]) for name in NAMES
    ]
    assert "mlx5emu: all 30 faults fired again" in result.output


@pytest.mark.parametrize(
    ("again", "of", "told"),
    [(0, 0, "the record has no fault that fired"), (1, 1, "the fault fired again"),
     (3, 3, "all 3 faults fired again"), (2, 3, "2 of 3 faults fired again"),
     (0, 1, "0 of 1 fault fired again")],
)  # fmt: skip
def test_faults_that_fired_again_are_counted(again, of, told, capsys):
    tell_again(again, of, 0)
    assert capsys.readouterr().err == f"mlx5emu: {told}\n"


def test_a_replay_of_links_says_so(capsys):
    tell_again(0, 0, 2)
    assert capsys.readouterr().err == (
        "mlx5emu: the record has only 2 links, which the replay has set\n"
    )


def with_run(path, **run):
    """Change what a record says of its guest."""
    head, *lines = path.read_text().splitlines(keepends=True)
    values = json.loads(head)
    values["run"] |= run
    path.write_text("".join([record.line(values), *lines]))


@pytest.mark.parametrize("suffix", ["", ":rw"])
def test_replay_keeps_the_shared_directory(recorded, guest, tmp_path, monkeypatch, suffix):
    """Wherever it is typed; the command runs where the directory is in the guest."""
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    shared.mkdir()
    elsewhere.mkdir()
    with_run(recorded, share=f"{shared}{suffix}")
    monkeypatch.chdir(elsewhere)
    assert run("replay", recorded, "--", "test-program").exit_code == 1
    run("replay", "--share", elsewhere, recorded, "--", "test-program")
    run("replay", "--no-share", recorded, "--", "test-program")
    kept, other, none = (one.options for one in guest.tried)
    assert (kept.share, kept.share_writable) == (shared, bool(suffix))
    assert (other.share, none.share) == (elsewhere, None)


def test_replay_of_a_shared_directory_that_is_gone_asks_for_one(recorded, guest, tmp_path):
    with_run(recorded, share=str(tmp_path / "gone"))
    result = run("replay", recorded, "--", "test-program")
    assert (result.exit_code, guest.tried) == (1, ())
    assert f"{tmp_path / 'gone'}" in result.output
    assert "--share" in result.output


def test_replay_of_a_record_without_times(recorded, guest):
    """As version 1 was, which mlx5emu wrote before lines had seconds."""
    recorded.write_text(recorded.read_text().replace('{"record":2,', '{"record":1,', 1))
    assert run("replay", recorded, "--", "test-program").exit_code == 1
    assert len(guest.tried) == 1


def test_replay_obeys_the_command_line(recorded, guest):
    words = ("--suite", "trixie", "--device", "connectx5", "--package", "gdb")
    run("replay", *words, recorded, "test-program")
    (tried,) = guest.tried
    assert tried.options.packages == ("gdb",)
    assert (tried.options.suite, tried.options.devices) == ("trixie", ("connectx5",))


@pytest.mark.parametrize(
    ("error", "status"), [(GuestPanicError("it panicked"), 125), (CommandTimeoutError("slow"), 124)]
)
def test_replay_of_what_loses_its_guest(recorded, guest, error, status):
    def end():
        raise error

    guest.end = staticmethod(end)
    result = run("replay", recorded, "test-program")
    assert result.exit_code == status
    assert str(error) in result.output


def test_minimize_finds_the_one_fault_that_matters(recorded, guest, tmp_path):
    found = tmp_path / "smallest.toml"
    result = run("minimize", "-o", found, recorded, "--", "test-program")
    assert result.exit_code == 0, result.output
    (rule,) = load(found.read_text()).rule
    assert (rule.name, rule.index) == (CULPRIT[0], [CULPRIT[1]])
    assert "1 of 30 faults are necessary" in result.output
    assert len(guest.tried) < 30
    assert "fails (status 1)" in result.output


def test_minimize_names_no_rule_that_fails_by_chance(recorded, guest, tmp_path):
    """A busy machine loses the guest of a trial, or ends its command late, each time a new one."""
    numbers = count(1)

    def end():
        if next(numbers) % 4 == 2:
            raise GuestHungError("it did not respond for too long")

    guest.end = staticmethod(end)
    found = tmp_path / "smallest.toml"
    result = run("minimize", "-o", found, recorded, "--", "test-program")
    assert result.exit_code == 0, result.output
    (rule,) = load(found.read_text()).rule
    assert (rule.name, rule.index) == (CULPRIT[0], [CULPRIT[1]])


def test_minimize_that_is_interrupted_leaves_the_smallest_plan_so_far(recorded, guest, tmp_path):
    found, numbers = tmp_path / "smallest.toml", count(1)

    def end():
        if next(numbers) == 8:
            raise KeyboardInterrupt

    guest.end = staticmethod(end)
    result = run("minimize", "-o", found, recorded, "--", "test-program")
    assert result.exit_code == 130
    rules = [rule.name for rule in load(found.read_text()).rule]
    assert CULPRIT[0] in rules
    assert 1 < len(rules) < len(NAMES)
    assert f"mlx5emu: {3 * len(rules)} of 30 faults are sufficient so far" in result.output


def test_minimize_that_is_interrupted_at_once_leaves_no_plan(recorded, guest, tmp_path):
    def end():
        raise KeyboardInterrupt

    guest.end = staticmethod(end)
    found = tmp_path / "smallest.toml"
    assert run("minimize", "-o", found, recorded, "--", "test-program").exit_code == 130
    assert not found.exists()


@pytest.mark.parametrize("command", ["replay", "minimize"])
def test_an_option_behind_the_record_is_no_command(recorded, guest, command):
    result = run(command, recorded, "--timeout", "3", "test-program")
    assert result.exit_code == 2
    assert "--timeout: options come before RECORD" in result.output
    assert not guest.tried


@pytest.mark.parametrize("command", ["replay", "minimize"])
def test_a_missing_program_is_told_before_a_guest_boots(recorded, guest, command):
    result = run(command, recorded, "--", "./none")
    assert result.exit_code == 127
    assert "./none: no such file in" in result.output
    assert not guest.tried


def test_minimize_of_what_does_not_fail(recorded, guest):
    guest.wait = lambda *_: 0
    result = run("minimize", recorded, "--", "test-program")
    assert result.exit_code == 1
    assert "did not fail twice in the same way" in result.output


def test_minimize_of_a_record_without_faults(tmp_path, guest):
    path = tmp_path / "record"
    path.write_text(record.line(record.head(PLAN, {}, [], {})))
    result = run("minimize", path, "--", "test-program")
    assert result.exit_code == 1
    assert "no fault has fired" in result.output
    assert not guest.tried
