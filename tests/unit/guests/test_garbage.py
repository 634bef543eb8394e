"""A guest that says anything at all over its channel, and a QEMU over its control socket."""

import contextlib
import json
import socket
import threading

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.guests.channel import frames
from emu.guests.channel.channel import GuestChannel
from emu.guests.errors import GuestError
from emu.guests.guest import console
from emu.guests.machine.qmp import Qmp

pytestmark = pytest.mark.hostile

HELLO = frames.encode(frames.HELLO, 0, frames.MARK + b"6.12.0")
KINDS = st.integers(0, 255) | st.sampled_from(
    [
        frames.HELLO,
        frames.STDOUT,
        frames.STDERR,
        frames.EXIT,
        frames.CREDIT,
        frames.BYE,
        frames.PONG,
    ]
)
FRAMES = st.builds(frames.encode, KINDS, st.sampled_from([0, 1, 2, 0xFFFF]), st.binary(max_size=20))
SAID = st.lists(st.one_of(FRAMES, FRAMES, FRAMES, st.binary(max_size=20)), max_size=10)


@contextlib.contextmanager
def talking(limit=1.0):
    """A channel, and the guest's end of it."""
    ours, theirs = socket.socketpair()
    channel = GuestChannel(ours, hang_timeout=limit)
    try:
        with theirs:
            theirs.sendall(HELLO)
            channel.wait_ready(30)
            yield channel, theirs
    finally:
        channel.close()


@given(SAID)
@settings(max_examples=examples(60))
def test_any_frames_end_a_command_well(said):
    """With its status, or with an error for whoever waits; the reader never ends by mistake."""
    with talking() as (channel, guest):
        job = channel.start("name", ["true"], {}, has_input=True)
        with contextlib.suppress(OSError):
            guest.sendall(b"".join(said) + frames.encode(frames.EXIT, 1, b"\7"))
            guest.shutdown(socket.SHUT_WR)
        with contextlib.suppress(GuestError):
            assert 0 <= job.wait(30) <= 255
        assert "mistake" not in str(job.failure or channel._failure)
        assert job.consumed <= job.sent
        channel._thread.join(30)
        assert not channel._thread.is_alive()


def test_credit_that_was_never_taken():
    """The window stays what it is: a guest does not make us send more than it can hold."""
    with talking() as (channel, guest):
        job = channel.start("name", ["true"], {}, has_input=True)
        for _ in range(3):
            guest.sendall(frames.encode(frames.CREDIT, 1, frames.encode_count(0xFFFFFFFF)))
        guest.sendall(frames.encode(frames.STDOUT, 1, b"said"))
        channel.wait_for(lambda: bool(job.stdout), 30)
        assert job._credits() == frames.WINDOW


def test_a_status_that_comes_twice():
    with talking() as (channel, guest):
        job = channel.start("name", ["true"], {})
        guest.sendall(frames.encode(frames.EXIT, 1, b"\0") * 2)
        assert job.wait(30) == 0
        other = channel.start("name", ["true"], {})
        guest.sendall(frames.encode(frames.EXIT, 2, b"\5"))
        assert other.wait(30) == 5


def test_a_mistake_of_ours_does_not_leave_anybody_waiting(monkeypatch, caplog):
    def fail(*_):
        raise KeyError("ours")

    with talking() as (channel, guest):
        job = channel.start("name", ["true"], {})
        monkeypatch.setattr(channel, "_handle", fail)
        guest.sendall(frames.encode(frames.PONG))
        with pytest.raises(GuestError, match="the log has the cause"):
            job.wait(30)
    assert "KeyError" in caplog.text
    caplog.clear()


@pytest.mark.parametrize(
    ("said", "release"),
    [(b"\x1b[2J", "\\x1b[2J"), (b"\xff\n", "\ufffd\\n"), (b"6" * 100_000, "6" * 64)],
)
def test_a_kernels_name_is_text(said, release):
    ours, theirs = socket.socketpair()
    channel = GuestChannel(ours, hang_timeout=1)
    with theirs:
        theirs.sendall(frames.encode(frames.HELLO, 0, frames.MARK + said))
        assert channel.wait_ready(30) == release
        channel.close()


class TestQmp:
    @contextlib.contextmanager
    def saying(self, *lines):
        ours, theirs = socket.socketpair()

        def talk():
            with contextlib.suppress(OSError), theirs:
                for line in lines:
                    theirs.sendall(line)
                theirs.shutdown(socket.SHUT_WR)
                while theirs.recv(1 << 16):
                    pass

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            with ours:
                yield ours
        finally:
            thread.join()

    @pytest.mark.parametrize(
        "answer",
        [
            b"", b"text\n", b"\xff\n", b"[" * 50_000 + b"\n", b"1\n", b"[]\n",
            b'{"error": 1}\n', b'{"error": {"desc": [1]}}\n', b'{"error": null}\n',
            b'{"event": "x"}\n' * 200_000, b"x" * (3 << 20),
        ],
        ids=range(11),
    )  # fmt: skip
    def test_what_is_no_answer(self, answer):
        with self.saying(b'{"QMP": {}}\n', answer) as ours:
            with pytest.raises(GuestError, match=r"QEMU (does not answer|refuses)"):
                Qmp(ours)
            assert ours.fileno() == -1  # nobody else would close it

    def test_an_end_instead_of_a_greeting(self):
        with self.saying(b"") as ours:
            with pytest.raises(ConnectionResetError, match="QEMU has ended"):
                Qmp(ours)
            assert ours.fileno() == -1

    def test_events_before_an_answer(self):
        answer = json.dumps({"return": {"x": 1}}).encode() + b"\n"
        with self.saying(b"{}\n", answer, b'{"event": 1}\n' * 1000, answer) as ours:
            assert Qmp(ours).execute("anything") == {"x": 1}


def test_of_a_long_console_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(console, "_MAX_READ", 1000)
    log = tmp_path / "log"
    log.write_bytes(b"x\r\n" * 10_000 + b"Kernel panic - not syncing: why\r\n")
    text = console.read(log)
    assert len(text) <= 1000
    assert console.panic_reason(text) == "why"
