"""``mlx5emu run`` without a guest: its status, and the result that it leaves in every case."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from helpers.instruments.fake_runs import RECORD

from emu.cli import main as cli
from emu.cli.commands.guests import run
from emu.cli.runs import judged
from emu.device.faults import record
from emu.device.faults.parser import load
from emu.guests.errors import GuestHungError, GuestPanicError, ServerError
from emu.guests.guest.guest import Result
from emu.guests.named import daemon, running

WARNING = "<4>[ 1.0] WARNING: CPU: 0 PID: 112 at a.c:1 mlx5_w+0x1/0x2 [mlx5_core]\n"
BUG = "<1>[ 2.0] kernel BUG at a.c:1!\n<4>[ 2.0] RIP: 0010:mlx5_x+0x1/0x2 [mlx5_core]\n"
DRIVER = "<3>[ 1.0] mlx5_core 0000:01:00.0: health recovery failed\n"


class FakeGuest:
    """Ends as the test says."""

    server_failure = None

    def __init__(self):
        self.log = "<6>[ 0.0] Linux version 6.12\n"
        self.statuses = [0]
        self.fails = self.fails_to_boot = None
        self.censuses = []
        self.turns = 0
        self.is_emulated = True
        self.log_files = {}

    def __call__(self, options, **_):
        self.options = options
        return self

    def __enter__(self):
        if self.fails_to_boot:
            raise self.fails_to_boot
        return self

    def __exit__(self, *_):
        pass

    def popen(self, words, *, has_input, sink):
        self.turns += 1
        sink(1, f"turn {self.turns}\n".encode())
        self.job = SimpleNamespace(name=" ".join(words))
        return self.job

    def wait(self, job, timeout):
        if self.fails is not None:
            raise self.fails
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def run(self, words, timeout):
        return Result("dmesg", 0, self.log, "")

    @property
    def console(self):
        return self.log

    @property
    def control_socket(self):
        return None

    def census(self):
        return self.censuses.pop(0)


@pytest.fixture
def guest(monkeypatch, tmp_path):
    made = FakeGuest()
    monkeypatch.setattr(run, "Guest", made)
    monkeypatch.setattr(running, "NameClaim", nullcontext)
    monkeypatch.setattr(daemon, "open_exec_servers", lambda *_: nullcontext())
    monkeypatch.setattr(judged, "_census", lambda guest: guest.census())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    return made


def invoke(*words):
    return CliRunner().invoke(
        cli.main, ["run", "--junit", "out/run.xml", "--tap", "out/run.tap", *words, "--", "true"]
    )


def case(path):
    (found,) = ElementTree.fromstring((path / "out/run.xml").read_text()).iter("testcase")
    return found


@pytest.mark.parametrize(
    ("log", "fail_on", "status"),
    [
        (WARNING, None, 0),
        (BUG, None, 122),
        (WARNING, "warning", 122),
        (WARNING, "error", 0),
        (BUG, "never", 0),
        (DRIVER, "warning", 0),
    ],
)
def test_what_the_kernel_says_makes_it_fail(guest, tmp_path, log, fail_on, status):
    guest.log += log
    done = invoke(*(["--fail-on", fail_on] if fail_on else []))
    assert done.exit_code == status, done.output
    title = {WARNING: "WARNING in mlx5_w", BUG: "kernel BUG in mlx5_x"}.get(log, "mlx5_core: ")
    assert f"mlx5emu: {title}" in done.output
    failure = case(tmp_path).find("failure")
    assert (failure is not None) == bool(status)
    if failure is not None:
        assert failure.get("message") == title
        assert "a.c:1" in failure.text
        assert title in (tmp_path / "out/run.tap").read_text()


@pytest.mark.parametrize(("status", "wanted"), [(0, 123), (3, 3)])
def test_a_file_that_a_full_disk_has_cut_short_fails_what_had_passed(guest, status, wanted):
    said = "the device server ended with status 1: the record r is not complete: No space left"
    guest.server_failure = ServerError(said)
    guest.statuses = [status]
    done = invoke("--trace-limit", "1")
    assert (done.exit_code, said in done.output) == (wanted, not status)
    assert guest.options.server_words == ("--trace-limit", "1")


def test_a_stall_in_an_emulated_guest_may_be_the_hosts(guest):
    guest.log += "[ 9.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n"
    done = invoke("--fail-on", "warning")
    assert (done.exit_code, "INFO: rcu detected stall" in done.output) == (0, True)
    guest.is_emulated = False
    assert invoke().exit_code == 122


def test_a_command_that_fails_keeps_its_status(guest, tmp_path):
    guest.log += BUG
    guest.statuses = [3]
    assert invoke().exit_code == 3
    failure = case(tmp_path).find("failure")
    assert failure.get("message") == "status 3"
    assert "kernel BUG in mlx5_x" in failure.text
    assert case(tmp_path).find("system-out").text == "turn 1\n"
    assert "Linux version" in case(tmp_path).find("system-err").text
    assert "# turn 1" in (tmp_path / "out/run.tap").read_text()


def test_a_command_that_passes_or_is_skipped(guest, tmp_path):
    assert invoke().exit_code == 0
    assert list(case(tmp_path)) == []
    guest.statuses = [4]
    assert invoke().exit_code == 4
    assert [one.tag for one in case(tmp_path)] == ["skipped"]
    guest.log += BUG
    assert invoke().exit_code == 122
    assert [one.tag for one in case(tmp_path)] == ["failure", "system-out", "system-err"]


def test_a_guest_that_panics_leaves_a_result(guest, tmp_path):
    guest.log += BUG
    guest.fails = GuestPanicError("the guest panicked: Fatal exception", "its console")
    assert invoke().exit_code == 125
    error = case(tmp_path).find("error")
    assert error.get("message") == "the guest panicked: Fatal exception"
    assert "kernel BUG in mlx5_x" in error.text
    assert case(tmp_path).find("system-out").text == "turn 1\n"
    assert (tmp_path / "out/run.tap").read_text().splitlines()[2] == "not ok 1 mlx5emu run: true"


def test_a_guest_that_does_not_come_up_leaves_a_result(guest, tmp_path):
    guest.fails_to_boot = GuestHungError("the guest is not up after 3 s", "its console")
    assert invoke().exit_code == 124
    assert case(tmp_path).find("error").get("message") == "the guest is not up after 3 s"


def test_turns_that_leave_objects(guest, tmp_path):
    """A key that a cache keeps comes once; a domain in each run."""
    guest.censuses = [{"pd": 3, "mkey": 5}, {"pd": 4, "mkey": 6}, {"pd": 5, "mkey": 6}]
    done = invoke("--check-leaks")
    assert (done.exit_code, guest.turns) == (122, 3)
    assert "objects left in the device: pd: pd: 2 more in 2 repetitions (3, 4, 5)" in done.output
    assert "mkey" not in done.output
    assert case(tmp_path).find("failure").get("message") == "objects left in the device: pd"


def test_turns_that_leave_nothing(guest):
    guest.censuses = [{"pd": 3}, {"pd": 5}, {"pd": 4}, {"pd": 5}]
    assert invoke("--check-leaks", "--repeat", "3").exit_code == 0
    assert guest.turns == 4


def test_a_turn_that_fails_ends_the_run(guest):
    guest.statuses = [0, 7, 0]
    assert invoke("--repeat", "5").exit_code == 7
    assert guest.turns == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--check-leaks", "--repeat", "1"], "needs --repeat 2 or more"),
        (["--check-leaks", "--no-device"], "counts objects of a function"),
        (["--stdin", "--check-leaks"], "needs a single run"),
    ],
)
def test_words_that_do_not_fit(guest, words, says):
    done = invoke(*words)
    assert (done.exit_code, says in done.output) == (2, True)


def test_a_message_has_the_command_as_it_was_typed(guest):
    """And not what puts it into its directory."""
    assert invoke("--share", ".").exit_code == 0
    assert guest.job.name == "true"


def test_faults_are_printed_with_the_drivers_answer(guest, tmp_path, monkeypatch):
    """`run --faults plan.toml -- ./repro`: the faults that fired, then the driver's errors."""
    plan, guest.record = tmp_path / "plan.toml", tmp_path / "record"
    plan.write_text('[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "CREATE_CQ"\n')
    guest.record.write_text(RECORD)
    monkeypatch.setattr(run, "tell_unfired", lambda _socket: None)
    refused = "mlx5_core 0000:01:00.0: mlx5_cmd_out_err:815:(pid 208): CREATE_CQ(0x400) failed"
    guest.log += f"<6>[ 1.0] mlx5_core 0000:01:00.0: firmware version\n<3>[ 1.1] {refused}\n"
    guest.log += "<28>[ 1.2] infiniband mlx5_0: a warning\n<3>[ 1.3] other: failed\n"
    guest.log += "<4>[ 2.0] mlx5_core 0000:01:00.0: again\n" * 9
    words = ["run", "--faults", str(plan), "--", "true"]
    lines = CliRunner().invoke(cli.main, words).output.splitlines()
    first = next(number for number, line in enumerate(lines) if "no fault has fired" in line)
    assert lines[first + 1 : first + 3] == [
        f"mlx5emu: dmesg: {refused}",
        "mlx5emu: dmesg: infiniband mlx5_0: a warning",
    ]
    assert lines[first + 11 :] == ["mlx5emu: dmesg: 1 more line of the driver"]
    assert "dmesg:" not in CliRunner().invoke(cli.main, ["run", "true"]).output


LINK = {"function": 0, "direction": "tx", "properties": {"delay": "10ms", "loss": 0.01},
        "in_flight": 0, "counts": {"packets": 1234, "lost": 2}}  # fmt: skip


def test_a_plan_of_links_tells_their_packets(guest, tmp_path, monkeypatch):
    """`run --faults @wan -- ./repro 20`: a link does not fire, and says what it has done."""
    guest.record = tmp_path / "record"
    plan = load('[[link]]\ndirection = "tx"\ndelay = "10ms"\nloss = 0.01\n')
    guest.record.write_text(record.line(record.head(plan, {}, [], {})))
    answers = SimpleNamespace(rules=lambda: [], links=lambda: [LINK])
    monkeypatch.setattr("emu.server.control.client.Client", lambda _: nullcontext(answers))
    (tmp_path / "repro").touch(0o755)
    words = ["run", "--faults", "@wan", "--", "./repro", "20"]
    output = CliRunner().invoke(cli.main, words).output
    assert "no fault has fired" not in output
    assert "link of function 0 tx (delay=10ms loss=0.01): 1,234 packets, 2 lost\n" in output


def test_input_that_is_not_passed_on_is_told(guest, monkeypatch, capfd, tmp_path):
    """`echo hi | mlx5emu run -- cat`, and the same from a file."""
    reading, writing = os.pipe()
    (tmp_path / "some").write_text("hi")
    with open(reading) as pipe, (tmp_path / "some").open() as file, open(os.devnull) as null:
        for stdin, is_told in (
            (pipe, False),  # still empty
            (null, False),
            (file, True),
            (None, False),
            (pipe, True),
        ):
            if is_told:
                os.write(writing, b"hi\n")
            monkeypatch.setattr(sys, "stdin", stdin)
            with pytest.raises(SystemExit):
                cli.main(["run", "--", "cat"], standalone_mode=False)
            assert ("--stdin passes it on" in capfd.readouterr().err) == is_told
    os.close(writing)


def test_virtual_functions_without_a_place_are_told(guest, tmp_path):
    log = tmp_path / "server.log"
    log.write_text(
        "a WARNING b\n12:00 WARNING x: function 0: the virtual functions have no place: y\n"
    )
    guest.log_files = {"server": log}
    assert "mlx5emu: the virtual functions have no place: y\n" in invoke().output
    log.unlink()
    assert "no place" not in invoke().output
