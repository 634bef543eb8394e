"""One run, without a guest: what is asked of it, and what becomes of its answers."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from helpers.instruments.fake_runs import RECORD, descriptions

from emu.device.faults import record
from emu.guests import CommandTimeoutError, GuestOptions
from emu.guests.channel import frames
from emu.guests.errors import GuestPanicError, ServerError
from emu.guests.guest.guest import Result
from emu.instruments.campaign import guest_run, observer
from emu.instruments.campaign import peer as peer_module
from emu.instruments.campaign.description import Ended, Expected, GuestPart, PeerPart
from emu.instruments.campaign.guest_run import carry_out
from emu.instruments.outcome import EX_DATAERR, Kind, settled

OOPS = "[ 1.0] kernel BUG at a.c:1!\n[ 1.0] RIP: 0010:mlx5_x+0x1/0x2 [mlx5_core]\n"
TRACED = '{"t_ns":1,"function":0,"point":"reset"}\n'
LISTING = "<6>[ 1.0] sysrq: Show Blocked State\n"
HUNG = """<6>[ 1.0] task:rmmod           state:D stack:0     pid:512
<6>[ 1.0] Call Trace:
<6>[ 1.0]  mlx5_y+0x1/0x2 [mlx5_core]
"""


class FakeGuest:
    """Answers as the test says; one of a kind, so that the test sees what was asked."""

    kernel_release = "6.12.0-test"

    def __init__(self):
        self.asked = []
        self.end = b"the end\x1b[2J"
        self.errors = b""
        self.statuses = [0]
        self.fails = None
        self.log = ""
        self.logs = []
        self.logged = []
        self.slabs = []
        self.leaks = ""
        self.threads = "process 7: true\n  thread 7 true: state S, waits in do_wait\n"
        self.is_emulated = True
        self.control_socket = None
        self.console = ""
        self.stopped = False
        self.censuses = [{"pd": 3}]

    def __call__(self, options):
        self.options = options
        self.plan = options.faults and options.faults.read_text()
        if options.record is not None:
            options.record.write_text(RECORD + '{"cut short')
        if options.trace is not None:
            options.trace.write_text(TRACED)
        return self

    def start(self):
        if isinstance(self.fails, ServerError):
            raise self.fails

    def popen(self, words, *, environ, cwd, sink):
        self.asked.append((words[-1], environ))
        self.cwd = cwd
        sink(frames.STDOUT, b"x" * 100_000 + self.end)
        sink(frames.STDERR, self.errors)
        return None

    def wait(self, job, timeout, at_timeout=None):
        if self.fails is not None:
            if at_timeout is not None:
                at_timeout()
            raise self.fails
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def run(self, command, timeout):
        said = ""
        if "slabinfo" in command:
            said = self.slabs.pop(0) if self.slabs else ""
        elif "kmemleak" in command:
            said = self.leaks
        elif "dmesg" in command:
            self.logged.append(command)
            said = self.logs.pop(0) if self.logs else self.log
        elif "python3" in command:
            said = self.threads
        else:
            self.asked.append((command, None))
        return Result(command, 0, said, "")

    def census(self):
        return self.censuses.pop(0) if len(self.censuses) > 1 else self.censuses[0]

    def stop(self):
        self.stopped = True


@pytest.fixture
def guest(monkeypatch):
    made = FakeGuest()
    monkeypatch.setattr(guest_run, "Guest", made)
    monkeypatch.setattr(guest_run, "_census", FakeGuest.census)
    return made


def one(**changes):
    (run,) = descriptions(1)
    return run.model_copy(update=changes)


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (0, Ended.PASSED),
        (4, Ended.SKIPPED),
        (1, Ended.FAILED),
        (EX_DATAERR, Ended.FOUND),
        (None, Ended.FAILED),
    ],
)
def test_a_status_says_how_it_has_ended(guest, status, ended):
    guest.statuses = [status]
    result = carry_out(one(seed=7))
    assert result.seconds >= 0
    assert (result.ended, result.status, result.release) == (ended, status, "6.12.0-test")
    assert guest.asked == [("true", {"SEED": "7"})]
    assert guest.stopped


def test_output_is_the_end_and_printable(guest):
    output = carry_out(one()).output
    assert output.endswith(r"the end\x1b[2J")
    assert len(output) < 5000


def test_what_the_log_tells_is_found(guest):
    guest.log = OOPS
    result = carry_out(one())
    assert (result.ended, [told.title for told in result.findings]) == (
        Ended.FOUND,
        ["kernel BUG in mlx5_x"],
    )


def test_a_guest_that_panics_is_told_by_its_console(guest):
    guest.fails, guest.console = GuestPanicError("the guest panicked: Fatal exception"), OOPS
    (told,) = carry_out(one()).findings
    assert (told.kind, told.title) == (Kind.OOPS, "kernel BUG in mlx5_x")


@pytest.mark.parametrize(
    ("logs", "title"),
    [
        ([f"{LISTING}{HUNG}", f"{LISTING}{HUNG}"] * 2, "INFO: task hung in mlx5_y"),
        (["", "", ""], "command timed out"),
        # A task that only one of the listings shows was about to continue.
        ([f"{LISTING}{HUNG}", f"{LISTING}{HUNG}{LISTING}"] * 2, "command timed out"),
        # What the kill leaves in the log afterwards is no hang.
        ([LISTING, LISTING, f"{LISTING}{HUNG}"], "command timed out"),
    ],
)
def test_a_timeout_tells_who_is_blocked_before_the_command_is_killed(guest, logs, title):
    guest.fails, guest.logs = CommandTimeoutError("true: longer than 3 s"), list(logs)
    assert [told.title for told in carry_out(one()).findings] == [title]
    assert [("sysrq" in command) for command in guest.logged] == [True, True, False]


def test_a_command_that_lists_blocked_tasks_itself_has_them_as_findings(guest):
    guest.log = f"{LISTING}{HUNG}"
    assert [told.title for told in carry_out(one()).findings] == ["INFO: task hung in mlx5_y"]


def test_a_guest_that_answers_no_more_at_a_timeout_has_the_timeout(guest, monkeypatch):
    guest.fails = CommandTimeoutError("true: longer than 3 s")
    run = guest.run
    monkeypatch.setattr(
        guest, "run", lambda words, timeout: _lose() if "sysrq" in words else run(words, timeout)
    )
    assert [told.title for told in carry_out(one()).findings] == ["command timed out"]


def test_a_server_that_ends_is_a_finding(guest):
    guest.fails = ServerError("the device server ended with status 1")
    (told,) = carry_out(one()).findings
    assert told.kind is Kind.SERVER


def test_turns_look_for_what_grows(guest):
    guest.slabs = ["leaky 10 10\nsteady 5 5\n", "leaky 4000 4000\nsteady 600 600\n"]
    guest.leaks = "unreferenced object 0xffff888104c1a200 (size 64):\n  backtrace:\n    f+0x1/0x2\n"
    result = carry_out(one(repeat=10))
    assert len(guest.asked) == 11
    assert [told.title for told in result.findings] == ["slab growth: leaky", "memory leak in f"]


def test_turns_look_for_objects_that_stay(guest):
    """One domain and one key each run: too few for the slab caches to tell."""
    guest.censuses = [{"pd": 3 + n, "mkey": 7 + n, "cq": 5 + (n > 0)} for n in range(4)]
    result = carry_out(one(repeat=3))
    assert result.ended is Ended.FOUND
    assert [(told.kind, told.title) for told in result.findings] == [
        (Kind.LEAK, "objects left in the device: mkey"),
        (Kind.LEAK, "objects left in the device: pd"),
    ]
    assert result.findings[0].lines == ("mkey: 3 more in 3 repetitions (7, 8, 9, 10)",)


def test_a_turn_that_fails_is_the_runs_status(guest):
    guest.statuses = [0, 3, 0]
    result = carry_out(one(repeat=2))
    assert (result.ended, result.status) == (Ended.FAILED, 3)


class FakeControl:
    """A server whose counts of objects grow by one queue pair while the command runs."""

    counts = 0

    def __init__(self, _socket):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def census(self):
        FakeControl.counts += 1
        return {"qp": 2 + (FakeControl.counts > STEADY), "cq": 4}

    def links(self):
        return [{"properties": {"rate": "10mbit"}, "counts": {"packets": 7}},
                {"properties": {}, "counts": {"packets": 5}}]  # fmt: skip

    def load_plan(self, text):
        self.plan = text

    def objects(self, limit):
        queue_pairs = [
            {"handle": 66, "service": "RC", "state": "RTS", "remote_qpn": 67},
            {"handle": 1, "service": "REG_UMR", "state": "RTS", "remote_qpn": 0},
        ]
        queues = [{"handle": 5, "pi": 9, "notification": "ARMED"}]
        faults = [{"qpn": 66, "kind": "RDMA_WRITE"}]
        objects = {"qp": queue_pairs, "cq": queues, "page fault": faults}
        listed = {kind: {"items": items} for kind, items in objects.items()}
        virtual = {"function": 1, "vf": {"name": "0.vf0"}, "objects": {"cq": {"items": queues}}}
        return {"functions": [{"function": 0, "objects": listed}, virtual]}


STEADY = 3
"""Samples until a count is settled."""


@pytest.fixture
def control(monkeypatch):
    FakeControl.counts = 0
    monkeypatch.setattr(observer, "Client", FakeControl)
    monkeypatch.setattr(guest_run, "Client", FakeControl)
    monkeypatch.setattr(observer, "settled", lambda control: settled(control, lambda _: None))


@pytest.mark.usefixtures("control")
def test_an_observed_run_tells_its_output_and_what_it_leaves(guest):
    guest.errors = b"e" * 9000 + b"\x1b\n"
    result = carry_out(one(is_observed=True, plan="seed = 3\n", when="loaded"))
    told = result.observed
    assert told.errors.endswith("ee\\x1b\n")
    assert len(told.errors) < 1010
    assert told.digest == hashlib.sha256(b"x" * 100_000 + guest.end).hexdigest()
    assert told.left == {"qp": 1}
    assert told.link_packets == 7
    assert told.threads == ""
    assert not told.has_timed_out
    assert guest.asked == [("true", {"SEED": "0", "MLX5EMU_OBSERVED": "1"})]
    assert result.ended is Ended.PASSED
    assert result.record == RECORD  # kept, although the run passed


@pytest.mark.usefixtures("control")
def test_processes_that_still_hold_objects_are_told(guest, monkeypatch):
    counts = iter([{"qp": 2}] * STEADY + [{"qp": 3, "user context": 1}] * STEADY)
    monkeypatch.setattr(FakeControl, "census", lambda _: next(counts))
    told = carry_out(one(is_observed=True)).observed
    assert told.left == {"qp": 1, "user context": 1}
    assert told.threads == guest.threads
    assert told.waiting


def test_a_process_that_ends_while_the_threads_are_read_hides_no_other(tmp_path):
    """Its directory of tasks is gone after its environment was read."""
    proc = tmp_path / "proc"
    for pid in (7, 8):
        (proc / f"{pid}").mkdir(parents=True)
        (proc / f"{pid}/environ").write_bytes(b"MARK=1\0")
        (proc / f"{pid}/cmdline").write_bytes(b"test\0-x\0")
    (proc / "8/task/8").mkdir(parents=True)
    (proc / "8/task/8/comm").write_text("test\n")
    (proc / "8/task/8/stat").write_text("8 (test) D 1 8")
    program = observer.THREADS.replace("/proc", str(proc))
    told = subprocess.run(
        [sys.executable, "-c", program, "MARK=1"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    assert told == "process 7: test -x\nprocess 8: test -x\n  thread 8 test: state D\n"


@pytest.mark.usefixtures("control")
def test_only_an_observed_run_is_traced_and_only_if_its_fault_struck(guest, monkeypatch):
    def traced(**about):
        monkeypatch.setattr(
            FakeControl, "links", lambda _: [{"properties": {"loss": 1}, "counts": about}]
        )
        return carry_out(one(is_observed=True)).trace

    carry_out(one())
    assert guest.options.trace is None
    assert (traced(), traced(packets=1)) == ("", TRACED)


@pytest.mark.usefixtures("control")
def test_an_observed_run_that_hangs_tells_its_threads_and_queues(guest):
    guest.fails = CommandTimeoutError("true: longer than 3 s")
    told = carry_out(one(is_observed=True)).observed
    assert told.has_timed_out
    assert told.threads == guest.threads
    assert told.waiting == (
        "function 0: queue pair 0x42, RC, RTS, peer 0x43",
        "function 0: queue pair 0x42 waits for a page, RDMA_WRITE",
        "function 0: completion queue 0x5, 9 completions, ARMED",
        "function 0.vf0: completion queue 0x5, 9 completions, ARMED",
    )


@pytest.mark.usefixtures("control")
def test_a_lost_guest_is_observed_until_it_is_lost(guest, monkeypatch):
    guest.fails = GuestPanicError("the guest panicked: Fatal exception")
    monkeypatch.setattr(guest, "wait", _lose)
    told = carry_out(one(is_observed=True)).observed
    assert (told.left, told.threads, told.has_timed_out) == ({}, "", False)


def _lose(*_):
    raise GuestPanicError("the guest panicked: Fatal exception")


FIRED = record.line({"function": 0, "rule": "1", "n": 1, "point": "irq", "action": "drop"})


@pytest.mark.parametrize(("said", "why"), [("INIT_HCA", ""), ("other", "did not log other")])
def test_a_run_is_compared_with_what_is_expected(guest, monkeypatch, said, why):
    monkeypatch.setattr(sys.modules[__name__], "RECORD", RECORD + FIRED)
    guest.log = "<3>[ 1.0] INIT_HCA failed\n"
    run = one(plan="seed = 3\n", expected=Expected(dmesg=(said,)))
    assert carry_out(run).otherwise == (f"the kernel {why}" if why else "")
    assert carry_out(one()).otherwise is None


def test_a_panic_is_compared_with_what_is_expected(guest, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RECORD", RECORD + FIRED)
    guest.fails, guest.console = GuestPanicError("the guest panicked: Fatal exception"), OOPS
    told = [carry_out(one(plan="seed = 3\n", expected=Expected(panics=is_wanted))).otherwise
            for is_wanted in (True, False)]  # fmt: skip
    assert told == ["", "the kernel panicked"]


def test_a_plan_is_there_from_the_boot_on_and_its_record_kept(guest):
    guest.log = OOPS
    result = carry_out(one(plan="seed = 3\n"))
    assert guest.plan == "seed = 3\n"
    assert result.record == RECORD  # whole lines only
    guest.log = ""
    assert carry_out(one(plan="seed = 3\n")).record == ""


def test_a_result_has_the_number_of_rules_and_of_fired_faults(guest):
    result = carry_out(one(plan='[[rule]]\npoint = "irq"\naction = "drop"\n'))
    assert (result.ended, result.rules, result.fired) == (Ended.PASSED, 1, 0)
    assert result.is_unfired
    assert not carry_out(one(plan="seed = 3\n")).is_unfired
    assert not carry_out(one()).is_unfired


def test_a_plan_for_a_loaded_driver_comes_by_the_control_socket(guest, monkeypatch, tmp_path):
    loaded = []

    class Control:
        def __init__(self, path):
            loaded.append(path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def load_plan(self, text):
            loaded.append(text)

    guest.control_socket = tmp_path / "control"
    monkeypatch.setattr(guest_run, "Client", Control)
    carry_out(one(plan="seed = 3\n", when="loaded"))
    assert (guest.plan, loaded) == (None, [tmp_path / "control", "seed = 3\n"])
    assert guest.options.record is not None


def test_the_guests_options_are_those_of_the_description(guest):
    part = {"memory": 1024, "icount": 3, "probe": False, "devices": ["connectx7"]}
    carry_out(one(guest=GuestPart.model_validate(part)))
    assert guest.options == GuestOptions(
        memory_mib=1024, icount=3, cpus=1, probe=False, devices=("connectx7",)
    )


def test_the_command_begins_in_the_campaigns_directory(guest, tmp_path):
    """`run = "./repro"` beside the campaign's file, as with `mlx5emu run`."""
    carry_out(one(directory=str(tmp_path)))
    options = guest.options
    assert (options.share, options.share_writable, options.share_optional) == (tmp_path, 0, 1)
    assert guest.cwd == "/mnt/share"
    (tmp_path / "other").mkdir()
    part = GuestPart.model_validate({"share": f"{tmp_path}/other:rw"})
    carry_out(one(directory=str(tmp_path), guest=part))
    options = guest.options
    assert (options.share, options.share_writable) == (tmp_path / "other", True)
    assert (options.share_optional, guest.cwd) == (False, "/mnt/share")
    carry_out(one())  # a stored run of an older version
    assert (guest.options.share, guest.cwd) == (None, None)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("repro", "repro is a file of the shared directory: ./repro runs it"),
        (
            "{0}/repro",
            "{0}/repro was not found in the guest: the guest sees it as /mnt/share/repro",
        ),
        ("./none", ""),
        ("none", ""),
        (
            "../beside",
            '{0}/../beside was not found in the guest: share its directory: share = "{1}"',
        ),
    ],
)
def test_a_file_that_is_not_found_in_the_guest(guest, tmp_path, word, why):
    directory = tmp_path / "in"
    directory.mkdir()
    for file in (directory / "repro", tmp_path / "beside"):
        file.touch(0o755)
    guest.statuses, guest.end = [127], f"\nsh: 1: {word.format(directory)}: not found\n".encode()
    result = carry_out(one(directory=str(directory)))
    assert (result.ended, result.status) == (Ended.FAILED, 127)
    assert result.why == why.format(directory, tmp_path)


@pytest.mark.parametrize("word", ["./repro", "/mnt/share/repro"])
def test_a_file_that_is_not_executable(guest, tmp_path, word):
    (tmp_path / "repro").touch(0o644)
    guest.statuses, guest.end = [126], f"\nsh: 1: {word}: Permission denied\n".encode()
    result = carry_out(one(directory=str(tmp_path)))
    assert (result.ended, result.status) == (Ended.FAILED, 126)
    assert result.why == f"{word}: not executable: chmod +x {tmp_path}/repro"
    guest.end = b"\nsh: 1: /etc/passwd: Permission denied\n"
    assert carry_out(one(directory=str(tmp_path))).why == ""


def test_a_worker_without_the_campaigns_directory_says_so(guest, tmp_path):
    guest.statuses, guest.end = [127], b"\nsh: 1: ./repro: not found\n"
    why = carry_out(one(directory=f"{tmp_path}/none")).why
    assert (why, guest.cwd) == (
        f"the campaign's directory {tmp_path}/none does not exist on this host", None,
    )  # fmt: skip


class FakePeer(FakeGuest):
    def begin(self):
        self.asked.append(("begin", None))

    def wait_ready(self):
        pass

    def run(self, command, timeout):
        return super().run(command, timeout)

    def popen(self, command, *, environ, cwd=None, sink):
        self.asked.append((command, environ))
        sink(frames.STDOUT, b"served\x1b")


@pytest.fixture
def peer(guest, monkeypatch):
    made = FakePeer()
    monkeypatch.setattr(peer_module, "Guest", made)
    return made


def with_peer():
    return one(peer=PeerPart(command="./server", devices=("connectx6,lid=2",)))


def test_the_second_guest_is_connected_before_both_commands(guest, peer):
    result = carry_out(with_peer())
    (network, _), (ping, _), (command, environ) = guest.asked
    assert "ip addr add 10.0.0.1/24" in network
    assert "ping -q -c 1 -W 1 10.0.0.2" in ping
    assert (command, environ["PEER"], environ["ADDRESS"]) == ("true", "10.0.0.2", "10.0.0.1")
    (_, _), (network, _), (command, environ) = peer.asked
    assert "ip addr add 10.0.0.2/24" in network
    assert (command, environ) == ("./server", {"ADDRESS": "10.0.0.2", "PEER": "10.0.0.1"})
    assert guest.options.fabric == peer.options.fabric
    assert peer.options.devices == ("connectx6,lid=2",)
    assert peer.options.record is None
    assert result.peer_output == r"served\x1b"
    assert guest.stopped
    assert peer.stopped


def test_what_the_second_guests_kernel_logs_is_found(guest, peer):
    peer.log = OOPS
    result = carry_out(with_peer())
    assert [told.title for told in result.findings] == ["kernel BUG in mlx5_x"]


def test_a_second_guest_that_is_lost_is_found(guest, peer, monkeypatch):
    def lose(*_, **__):
        raise GuestPanicError("the guest panicked: Fatal exception")

    monkeypatch.setattr(peer, "popen", lambda *_, **__: monkeypatch.setattr(peer, "run", lose))
    result = carry_out(with_peer())
    assert [told.kind for told in result.findings] == [Kind.PANIC]
    assert peer.stopped
