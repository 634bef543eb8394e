"""Turns by a program that goes on in the guest: lines to it, lines back, and invalid answers."""

import json
import time

import pytest

from emu.guests.channel import frames
from emu.guests.errors import CommandTimeoutError, GuestError, GuestPanicError, LabError
from emu.instruments.coverage.inside.turns import function_level_reset
from emu.instruments.fuzz import turns
from emu.instruments.fuzz.turns import ProgramTurns
from emu.instruments.fuzz.workloads import WORKLOADS
from emu.instruments.fuzz.workloads import program as program_text


class PretendedJob:
    """The program in the guest: answers each line with the next of ``answers``."""

    def __init__(self, sink):
        self._sink = sink
        self.asked = []
        self.answers = []
        self.status = self.failure = None

    def write(self, data):
        self.asked.append(json.loads(data))
        if self.answers:
            self.say(self.answers.pop(0))

    def say(self, text, kind=frames.STDOUT):
        self._sink(kind, text)


class PretendedGuest:
    work_seconds = None

    def popen(self, words, *, has_input, sink):
        assert has_input
        compile(words[-1], "program", "exec")
        self.job = PretendedJob(sink)
        return self.job

    def wait(self, job):
        if job.failure is not None:
            raise job.failure


@pytest.fixture
def guest():
    return PretendedGuest()


@pytest.fixture
def program(guest):
    made = ProgramTurns(guest)
    guest.job.say(b'{"ready":true}\n')
    made.install()
    return made


def test_a_turn(guest, program):
    guest.job.answers = [b'{"said":"[    1.0] hello\\n","places":[16,32]}\n']
    assert program.run("bind", 10) == "[    1.0] hello\n"
    assert program.executed() == [(16, 1), (32, 1)]
    (asked,) = guest.job.asked
    assert asked["run"] == WORKLOADS["bind"].script
    assert asked["mark"].endswith("bind")
    program.clear()
    assert program.executed() == []


def test_a_reset(guest, program):
    guest.job.answers = [b'{"done":true}\n', b'{"done":false}\n']
    assert program.begin("bind")
    assert not program.begin("bind")
    assert guest.job.asked == [{"reset": True}] * 2


DONE = b'{"done":true}\n'
CALM = b'{"said":"","calm":true,"places":[]}\n'


def test_live_turns_go_on_with_what_is_bound(guest, program):
    guest.job.answers = [DONE, DONE, CALM, CALM]
    for _ in range(2):
        assert program.begin("live-frames")
        assert program.run("live-frames", 10) == ""
    reset, bind, *lived = guest.job.asked
    assert reset == {"reset": True}
    assert bind == {"bind": True}
    assert [one["live"] for one in lived] == ["frames", "frames"]
    assert (lived[0]["class"], lived[0]["count"]) == (WORKLOADS["live-frames"].pci_class, 2)


def test_a_live_turn_of_another_workload_goes_on_as_well(guest, program):
    guest.job.answers = [DONE, DONE, CALM, CALM]
    for name in ("live-frames", "live-questions"):
        assert program.begin(name)
        program.run(name, 10)
    assert [sorted(one)[0] for one in guest.job.asked] == ["reset", "bind", "class", "class"]


def complaint(said):
    return json.dumps({"said": said, "calm": False, "places": []}).encode() + b"\n"


def test_some_warnings_may_pass(guest, program):
    guest.job.answers = [DONE, DONE]
    program.begin("live-frames")
    for _ in range(turns._MAX_COMPLAINTS - 1):
        guest.job.answers = [complaint("mlx5_core: QUERY_MKEY failed")]
        program.run("live-frames", 10)
        asked = len(guest.job.asked)
        assert program.begin("live-frames")
        assert len(guest.job.asked) == asked


@pytest.mark.parametrize(
    "spoil",
    [
        lambda program, _: program.spoil(),
        lambda program, job: [
            job.answers.append(complaint("Health issue observed")), program.run("live-links", 10),
        ],
        lambda program, job: [
            (job.answers.append(complaint("")), program.run("live-frames", 10))
            for _ in range(turns._MAX_COMPLAINTS)
        ],
        lambda program, job: [
            (job.answers.append(CALM), program.run("live-frames", 10))
            for _ in range(turns._MAX_TURNS)
        ],
        lambda program, job: [job.answers.append(DONE), program.begin("bind")],
    ],
    ids=["told so", "health", "many warnings", "many turns", "another workload"],
)  # fmt: skip
def test_they_begin_anew_after(guest, program, spoil):
    guest.job.answers = [DONE, DONE]
    program.begin("live-frames")
    spoil(program, guest.job)
    before = len(guest.job.asked)
    guest.job.answers = [DONE, DONE]
    assert program.begin("live-frames")
    assert [set(one) for one in guest.job.asked[before:]] == [{"reset"}, {"bind"}]


def test_functions_that_cannot_be_bound(guest, program):
    guest.job.answers = [DONE, b'{"done":false}\n', DONE, DONE]
    assert not program.begin("live-frames")
    assert program.begin("live-frames")


def test_no_live_turns_by_a_shell(guest):
    with pytest.raises(LabError, match="guide uml"):
        turns.ShellTurns(guest).begin("live-frames")
    assert "live" not in program_text()


def test_an_answer_in_pieces(guest, program):
    guest.job.write = lambda _: [guest.job.say(part) for part in (b'{"do', b'ne":true', b"}\n")]
    assert program.begin("bind")


def test_one_that_takes_too_long(program, monkeypatch):
    monkeypatch.setattr(turns, "_POLL_SECONDS", 0.001)
    with pytest.raises(CommandTimeoutError, match="probe: not done after 0"):
        program.run("probe", 0)


class Working:
    """A guest of which the host tells how long it has worked: by the turns of a clock."""

    def __init__(self, monkeypatch, share):
        self.now, self.share = 0.0, share
        monkeypatch.setattr(time, "monotonic", self.monotonic)

    def monotonic(self):
        self.now += 0.1
        return self.now

    @property
    def work_seconds(self):
        return None if self.share is None else self.now * self.share


@pytest.mark.parametrize(
    ("workload", "share", "why"),
    [
        ("live-frames", 0.01, "the guest was idle for 1.5 s"),
        ("live-frames", 0.2, "not done after 60 s"),
        ("live-frames", None, "not done after 60 s"),
        ("bind", 0.01, "not done after 60 s"),
    ],
)
def test_one_that_waits_is_given_up_early(guest, program, monkeypatch, workload, share, why):
    """With a driver that stays bound: a probe sleeps between its looks at the device."""
    working = Working(monkeypatch, share)
    monkeypatch.setattr(PretendedGuest, "work_seconds", property(lambda _: working.work_seconds))
    monkeypatch.setattr(turns, "_POLL_SECONDS", 0)
    with pytest.raises(CommandTimeoutError, match=why):
        program.run(workload, 60)
    assert working.now < 4 or "60" in why


def test_a_guest_that_panics_meanwhile(guest, program):
    guest.job.failure = GuestPanicError("the guest panicked")
    with pytest.raises(GuestPanicError):
        program.run("bind", 10)


def test_a_program_that_ends(guest, program):
    guest.job.status = 1
    guest.job.say(b"Traceback\nOSError: odd\n", frames.STDERR)
    with pytest.raises(GuestError, match="OSError: odd"):
        program.run("bind", 10)


def test_a_kernel_without_kcov(guest):
    made = ProgramTurns(guest)
    guest.job.say(b'{"error":"the kernel has no KCOV (CONFIG_KCOV)"}\n')
    with pytest.raises(GuestError, match="no KCOV"):
        made.install()


@pytest.mark.hostile
@pytest.mark.parametrize(
    "said", [b"\n", b"no json\n", b"[]\n", b"3\n", b"\xff\n", b"[" * 9000 + b"\n"]
)
def test_what_is_no_answer(guest, program, said):
    guest.job.answers = [said]
    with pytest.raises(GuestError, match="an invalid answer"):
        program.begin("bind")


@pytest.mark.hostile
@pytest.mark.parametrize("places", ['"x"', '["x"]', "[null]", "7", "{}", "[1e999]"])
def test_places_that_are_none(guest, program, places):
    guest.job.answers = [b'{"said":"","places":%s}\n' % places.encode()]
    if places == "{}":
        assert program.run("bind", 10) == ""
    else:
        with pytest.raises(GuestError, match="invalid addresses"):
            program.run("bind", 10)


def test_a_reset_by_configuration_space(tmp_path):
    config = bytearray(256)
    config[0x34] = 0x40
    config[0x40:0x42] = bytes([1, 0x60])
    config[0x60:0x62] = bytes([0x10, 0])
    config[0x68:0x6A] = b"\x10\x29"
    path = tmp_path / "config"
    path.write_bytes(config)
    function_level_reset(path)
    config[0x69] |= 0x80
    assert path.read_bytes() == config


def test_one_without_that_capability(tmp_path):
    path = tmp_path / "config"
    path.write_bytes(bytes(256))
    function_level_reset(path)
    assert path.read_bytes() == bytes(256)
