"""Turns by a program that goes on in the guest: lines to it, lines back, and what is no answer."""

import json

import pytest

from emu.guests.channel import frames
from emu.guests.errors import CommandTimeoutError, GuestError, GuestPanicError
from emu.instruments.coverage.inside.turns import function_level_reset
from emu.instruments.fuzz import turns
from emu.instruments.fuzz.turns import ProgramTurns
from emu.instruments.fuzz.workloads import WORKLOADS


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
    assert program.reset()
    assert not program.reset()


def test_an_answer_in_pieces(guest, program):
    guest.job.write = lambda _: [guest.job.say(part) for part in (b'{"do', b'ne":true', b"}\n")]
    assert program.reset()


def test_one_that_takes_too_long(program, monkeypatch):
    monkeypatch.setattr(turns, "_LOOK_SECONDS", 0.001)
    with pytest.raises(CommandTimeoutError, match="probe: not done after 0"):
        program.run("probe", 0)


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
    with pytest.raises(GuestError, match="no answer"):
        program.reset()


@pytest.mark.hostile
@pytest.mark.parametrize("places", ['"x"', '["x"]', "[null]", "7", "{}", "[1e999]"])
def test_places_that_are_none(guest, program, places):
    guest.job.answers = [b'{"said":"","places":%s}\n' % places.encode()]
    if places == "{}":
        assert program.run("bind", 10) == ""
    else:
        with pytest.raises(GuestError, match="no places"):
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
