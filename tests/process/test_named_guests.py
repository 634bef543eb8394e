"""Guests that live on: names, the process that keeps them, the way in. No machine is needed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from helpers.guest.named_guests import FakeGuest

from emu.cli.main import main
from emu.cli.options.guest import places_of
from emu.cli.runs import execute
from emu.cli.shared import control
from emu.guests import Guest, GuestOptions, LabError
from emu.guests.channel import frames
from emu.guests.errors import (
    CommandFailedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    ServerError,
    as_reported,
    reported_failure,
)
from emu.guests.guest.server import DeviceServer
from emu.guests.named import daemon, outbox, placing, running
from emu.guests.named.attach import attached, follow_log, log_of, output_of, state_of
from emu.guests.named.exec_server import ExecServer
from emu.guests.named.placing import placed
from emu.guests.workdir import work_directory
from emu.host.process_identity import module_command


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory, monkeypatch):
    """A runtime directory of the test's own, with a short name: sockets are in it."""
    path = tmp_path_factory.mktemp("r")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path / "mlx5emu"


@pytest.fixture
def guest():
    with FakeGuest() as one:
        yield one


@pytest.fixture
def open_guest(guest):
    """A guest with an exec server, named ``one``."""
    info = {"suite": "x"}
    with running.NameClaim("one") as claim, daemon.open_exec_servers(claim, info, {"one": guest}):
        yield guest


@pytest.fixture
def kept():
    """Guests in a process of their own; whatever is left is ended."""
    yield
    for entry in running.entries():
        daemon.end(entry)


def fake(stack):
    return {"kept": stack.enter_context(FakeGuest())}


def test_a_command_has_input_output_and_a_status(open_guest):
    with attached("one") as channel:
        job = channel.start("it", ["sh", "-c", "cat; echo no >&2; exit 7"], {}, has_input=True)
        data = os.urandom(1_500_000)
        job.write(data)
        job.close_input()
        assert job.wait(30) == 7
    assert bytes(job.stdout) == data
    assert bytes(job.stderr) == b"no\n"


def test_input_in_small_pieces_waits_as_any_other(open_guest):
    """A quarter of a window, in far more pieces than a window has chunks."""
    with attached("one") as channel:
        job = channel.start("it", ["sh", "-c", "sleep 1; cat"], {}, has_input=True)
        for _ in range(frames.WINDOW // 64):
            job.write(b"0123456789abcdef")
        job.close_input()
        assert job.wait(30) == 0
    assert len(job.stdout) == frames.WINDOW // 4


def test_input_that_there_is_no_room_for_ends_the_client(open_guest):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(running.find_guest("one")))
        client.sendall(frames.encode(frames.HELLO, 0, frames.MARK))
        words = frames.encode_command(["sleep", "60"], [], True)
        client.sendall(frames.encode(frames.RUN, 1, words))
        with contextlib.suppress(OSError):
            for _ in range(64):
                client.sendall(frames.encode(frames.STDIN, 1, bytes(frames.WINDOW // 2)))
        with contextlib.suppress(ConnectionResetError):
            while client.recv(65536):
                pass
    assert output_of("one", ["echo", "fine"]) == b"fine\n"


def test_several_clients_at_once(open_guest):
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(attached("one")) for _ in range(4)]
        jobs = [
            channel.start("it", ["sh", "-c", f"read x; echo $x-{number}"], {}, has_input=True)
            for number, channel in enumerate(channels)
        ]
        for job in reversed(jobs):
            job.write(b"n\n")
        assert [job.wait(30) for job in jobs] == [0] * 4
        assert [bytes(job.stdout) for job in jobs] == [b"n-%d\n" % number for number in range(4)]


def test_a_client_that_does_not_read_stops_nobody_else(open_guest):
    """Its command waits as at a full pipe, and goes on when it reads again."""
    path = running.find_guest("one")
    count = 3 * outbox.HIGH + 12345
    words = ["sh", "-c", f"head -c {count} /dev/zero; exit 3"]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(path))
        client.sendall(frames.encode(frames.HELLO, 0, frames.MARK))
        client.sendall(frames.encode(frames.RUN, 1, frames.encode_command(words, [], False)))
        # It does not read while the others are served.
        for _ in range(20):
            assert output_of("one", ["echo", "fine"]) == b"fine\n"
        decoder, got, status = frames.FrameDecoder(), 0, None
        while status is None:
            for frame in decoder.feed(client.recv(65536)):
                got += len(frame.payload) if frame.kind == frames.STDOUT else 0
                status = frame.payload[0] if frame.kind == frames.EXIT else status
    assert (got, status) == (count, 3)


def test_an_outbox_holds_and_lets_go():
    gate, sent, told = threading.Event(), [], queue.SimpleQueue()

    def send(data):
        gate.wait(30)
        sent.append(data)

    box = outbox.Outbox(send, told.put)
    for _ in range(3):
        box.put(bytes(outbox.HIGH))
    assert told.get(timeout=30) is True
    gate.set()
    assert told.get(timeout=30) is False
    box.put(b"more")
    assert told.empty()
    box.close()
    with pytest.raises(OSError, match="does not read"):
        box.put(b"x")


@pytest.mark.hostile
def test_what_waits_for_a_client_is_bounded():
    gate = threading.Event()
    box = outbox.Outbox(lambda _: gate.wait(30), lambda _: None)
    for _ in range(outbox.MAX_BYTES // frames.MAX_PAYLOAD):
        box.put(bytes(frames.MAX_PAYLOAD))
    box.put(b"the last")
    with pytest.raises(OSError, match="does not read"):
        box.put(b"x")
    gate.set()


def test_a_door_does_things_itself(open_guest, tmp_path):
    with attached("one") as channel:
        assert channel.ask("dump", path=str(tmp_path / "memory")).wait(30) == 0
        assert channel.ask("clock").wait(30) == 0
        job = channel.ask("dump", path=str(tmp_path / "no" / "memory"))
        with pytest.raises(GuestError, match="No such file"):
            job.wait(30)
    assert (tmp_path / "memory").read_bytes() == b"memory"


def test_an_internal_error_is_an_answer_and_the_client_may_ask_again(
    open_guest, tmp_path, monkeypatch, caplog
):
    def fail(*_words, **_named):
        raise RuntimeError("broken")

    monkeypatch.setattr(open_guest, "mark_clock", fail)
    with attached("one") as channel:
        for _ in range(2):
            with pytest.raises(GuestError, match=r"internal error: RuntimeError\('broken'\)"):
                channel.ask("clock").wait(30)
        assert channel.ask("dump", path=str(tmp_path / "memory")).wait(30) == 0
        monkeypatch.setattr(open_guest, "wait", fail)
        with pytest.raises(GuestError, match="internal error"):
            channel.start("one", ["true"], {}).wait(30)
    assert "broken" in caplog.text
    caplog.clear()


def test_a_door_tells_the_state_and_of_a_guest_that_has_ended_the_console(open_guest):
    open_guest.console = "c" * 3_000_000
    with attached("one") as channel:
        job = channel.ask("state")
        assert (job.wait(30), bytes(job.stdout)) == (0, b"up")
    assert state_of("one") == "up"
    open_guest.server_failure = ServerError("the device server was killed by SIGKILL")
    assert state_of("one") == "down: the device server was killed by SIGKILL"
    open_guest.state = "panicked"
    assert state_of("one") == "panicked"
    assert log_of("one") == (open_guest.console, "panicked")
    with pytest.raises(LabError):
        log_of("two")
    assert state_of("two") == "silent"


@pytest.fixture
def clients(monkeypatch, tmp_path):
    """The sockets that control commands connect to; both servers run."""
    taken = []

    class Client:
        def __init__(self, path, guest=None):
            taken.append(path if guest is None else (path, guest))

        def close(self):
            taken.pop()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def rules(self):
            return []

        links = rules

        def clear(self):
            pass

        def add(self, rule):
            return json.dumps(rule)

        def remove(self, name):
            taken.append(name)

        def load_plan(self, text):
            return 1

        def set_link(self, link):
            pass

    monkeypatch.setattr(control, "Client", Client)
    monkeypatch.setattr(control, "sockets", lambda: [Path("/nowhere/control"), tmp_path / "x"])
    return taken


def test_ps_lists_the_servers_of_guests_without_a_name(open_guest, clients, tmp_path):
    lines = CliRunner().invoke(main, ["ps"]).output.splitlines()
    assert [line for line in lines if "--control" in line] == [
        f"a server of another program runs: --control {tmp_path / 'x'}"
    ]
    assert any(line.startswith("one ") for line in lines)
    assert not clients


def test_a_server_of_another_session_is_never_chosen(clients, monkeypatch, tmp_path):
    """A run of the same user, who has another XDG_RUNTIME_DIR there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_RUNTIME_DIR", str(theirs))
        work = work_directory()
        path = work.__enter__() / "control"
    monkeypatch.setattr(control, "sockets", lambda: [path])
    refused = CliRunner().invoke(main, ["fault", "list"])
    assert refused.exit_code == 1
    assert f"use --control SOCKET\n  of another session: --control {path}" in refused.output
    assert not clients
    listed = CliRunner().invoke(main, ["ps"]).output
    assert listed.splitlines()[-1] == f"1 server runs in other sessions: --control {path}"
    assert CliRunner().invoke(main, ["fault", "list", "--control", str(path)]).exit_code == 0
    assert clients == [path]
    with work_directory() as own:
        monkeypatch.setattr(control, "sockets", lambda: [path, own / "control"])
        assert CliRunner().invoke(main, ["fault", "list"]).exit_code == 0
        assert clients[1:] == [own / "control"]
    work.__exit__(None, None, None)


def test_an_unknown_name_is_told_with_what_runs(open_guest, clients):
    for words in (["down", "oen"], ["exec", "oen", "true"]):
        result = CliRunner().invoke(main, words)
        assert "no guest or lab named oen is running; near it: one; running: one" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["fault", "list", "one"],
        ["fault", "list", "one/one"],
        ["fault", "add", "one", "point=cmd"],
        ["fault", "remove", "one", "--all"],
        ["fault", "remove", "one", "r1"],
        ["fault", "load", "one", "{plan}"],
        ["net", "show", "one"],
        ["net", "set", "one", "delay=1ms"],
        ["net", "clear", "one"],
        ["net", "clear", "one", "function=0"],
    ],
)
def test_control_commands_take_a_guest_s_name(open_guest, clients, tmp_path, words):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[rule]]\npoint = "cmd"\naction = "fail"\n')
    result = CliRunner().invoke(main, [word.format(plan=plan) for word in words])
    assert (result.exit_code, result.output.count("Error")) == (0, 0)
    assert clients[0] == Path("/nowhere/control")
    assert clients[1:] == (["r1"] if "r1" in words else [])


@contextlib.contextmanager
def labs(**named):
    """Labs whose guests have these names; they are all the same guest."""
    with contextlib.ExitStack() as stack:
        guest = stack.enter_context(FakeGuest())
        for name, guests in named.items():
            claim = stack.enter_context(running.NameClaim(name))
            stack.enter_context(daemon.open_exec_servers(claim, {}, dict.fromkeys(guests, guest)))
        yield


@pytest.mark.parametrize(
    ("name", "meant"),
    [("roce", None), ("roce/h1", "h1"), ("h1", "h1"), ("ib/x", "x"), ("alone/x", None)],
)
def test_a_name_of_a_lab_s_guest_means_its_functions(clients, name, meant):
    socket_path = Path("/nowhere/control")
    with labs(roce=["h1", "h2"], ib=["x", "y"], alone=["x"]):
        result = CliRunner().invoke(main, ["fault", "list", name])
    assert (result.exit_code, result.output.count("Error")) == (0, 0)
    assert clients == [socket_path if meant is None else (socket_path, meant)]


def test_a_guest_s_name_alone_where_it_is_unique():
    with labs(roce=["h1", "h2"], ib=["h2", "h3"], h3=["x"]):
        assert output_of("h1", ["echo", "a"]) == b"a\n"
        assert output_of("h3", ["echo", "a"]) == b"a\n"  # the name of an entry comes first
        with pytest.raises(LabError, match="h2 is ib/h2 or roce/h2"):
            output_of("h2", ["true"])
        with pytest.raises(LabError, match="roce is a lab: choose one of roce/h1, roce/h2"):
            output_of("roce", ["true"])
        with pytest.raises(LabError, match="no guest roce/h3: choose one of roce/h1, roce/h2"):
            output_of("roce/h3", ["true"])


@pytest.fixture
def roce(open_guest):
    """A lab of two guests beside the guest ``one``."""
    guests = {"h1": open_guest, "h2": open_guest}
    with running.NameClaim("roce") as claim, daemon.open_exec_servers(claim, {}, guests):
        yield guests


@pytest.mark.parametrize("name", ["h2", "roce/h2"])
@pytest.mark.parametrize("command", ["down", "lab down"])
@pytest.mark.usefixtures("roce")
def test_one_guest_of_a_lab_is_not_stopped(monkeypatch, command, name):
    ended = []
    monkeypatch.setattr(daemon, "end", ended.append)
    result = CliRunner().invoke(main, [*command.split(), name])
    said = f"{name} is a guest of the lab roce: mlx5emu down roce stops the whole lab"
    assert (result.exit_code, said in result.output, ended) == (1, True, [])
    result = CliRunner().invoke(main, ["down", "one/one"])  # the only guest of its name
    assert (result.output, [entry.name for entry in ended]) == ("one is down\n", ["one"])


def test_states_of_a_lab_as_json(roce):
    result = CliRunner().invoke(main, ["lab", "status", "--lab", "roce", "--json"])
    rows = json.loads(result.output)
    assert [row["guest"] for row in rows] == [*roce]
    assert set(rows[0]) == {"guest", "state", "kernel", "memory used"}


@pytest.mark.parametrize("command", ["lab status", "lab cp :/x /tmp", "lab exec h1 -- true"])
@pytest.mark.usefixtures("roce")
def test_a_guest_is_not_a_lab(command):
    lab, verb, *words = command.split()
    result = CliRunner().invoke(main, [lab, verb, "--lab", "h2", *words])
    assert "h2 is a guest of the lab roce: give roce" in result.output
    result = CliRunner().invoke(main, [lab, verb, "--lab", "rocce", *words])
    assert "no guest or lab named rocce is running; near it: roce" in result.output


@pytest.mark.usefixtures("roce")
def test_a_guest_of_another_lab_than_the_named_one_is_refused():
    words = ["lab", "exec", "--lab", "roce", "one/one", "--", "echo", "a"]
    result = CliRunner().invoke(main, words)
    said = "one/one is not in the lab roce: give one, or drop --lab roce"
    assert (result.exit_code, said in result.output) == (2, True), result.output
    for name in ("roce/h1", "h1"):
        result = CliRunner().invoke(main, ["lab", "exec", "--lab", "roce", name, "--", "true"])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "words",
    [
        "fault add dev point=cmd action=drop", "fault remove --all dev", "fault load dev plan.toml",
        "net set dev delay=1ms", "net clear dev", "subnet cut dev a 7", "subnet mend dev a 7",
        "fault list dev", "net show dev", "objects dev", "status dev", "top dev", "subnet show dev",
    ],
)  # fmt: skip
def test_a_guest_and_a_control_socket_are_refused_together(words):
    result = CliRunner().invoke(main, [*words.split(), "--control", "/nosuch"])
    said = "use NAME or --control, not both" in result.output
    assert (result.exit_code, said) == (2, True), result.output


@pytest.mark.parametrize(
    "words",
    [
        "exec {} -- true", "cp {}:/x .", "dmesg {}", "logs {}", "dump {} file", "reboot {}",
        "ssh {}",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("roce")
def test_a_lab_is_not_a_guest(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, said in (
        ("roce", "roce is a lab: choose one of roce/h1, roce/h2"),
        ("roce/h3", "no guest roce/h3: choose one of roce/h1, roce/h2"),
        ("mylab/h2", "no guest or lab named mylab is running; running: one, roce"),
    ):
        result = CliRunner().invoke(main, words.format(name).split())
        assert (result.exit_code, said in result.output) == (1, True), result.output


@pytest.mark.parametrize("words", [["status"], ["exec"], ["dmesg"], ["fault", "list"]])
def test_a_shell_completes_names(open_guest, words):
    two = {"h1": open_guest, "h2": open_guest}
    with running.NameClaim("two") as claim, daemon.open_exec_servers(claim, {}, two):
        for start, names in (("", ["one", "two/h1", "two/h2"]), ("two/", ["two/h1", "two/h2"])):
            found = ShellComplete(main, {}, "mlx5emu", "X").get_completions(words, start)
            assert [item.value for item in found] == names


def test_the_only_named_guest_is_chosen_beside_a_server_without_a_name(open_guest, clients):
    result = CliRunner().invoke(main, ["fault", "remove", "r1"])
    assert (result.exit_code, clients) == (0, [Path("/nowhere/control"), "r1"])


def test_a_server_without_a_name_is_chosen_while_no_named_guest_runs(
    clients, monkeypatch, tmp_path
):
    monkeypatch.setattr(control, "sockets", lambda: [tmp_path / "x"])
    assert CliRunner().invoke(main, ["fault", "list"]).exit_code == 0
    assert clients == [tmp_path / "x"]


def test_several_servers_without_a_name_are_told_by_their_sockets(clients, tmp_path):
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code == 1
    assert (
        f"2 servers run; choose one:\n  --control /nowhere/control\n  --control {tmp_path}/x"
        in (result.output)
    )


@pytest.fixture
def sharing(guest, tmp_path, monkeypatch):
    """A guest ``dev`` that mounts ``here``; its programs are the host's."""
    share = tmp_path / "here"
    share.mkdir()
    monkeypatch.chdir(share)
    monkeypatch.setattr(placing, "_IN_SHARE", placing._IN_SHARE.replace("/mnt/share", str(share)))
    info = {"lab": True, running.SHARES: {"dev": str(share)}}
    with running.NameClaim("dev") as claim, daemon.open_exec_servers(claim, info, {"dev": guest}):
        yield share


def test_a_program_of_another_processor_is_not_given_to_a_shell(guest, tmp_path):
    head = b"\x7fELF\x02\x01" + bytes(12) + (62).to_bytes(2, "little")
    (tmp_path / "repro").write_bytes(head)
    options = GuestOptions(share=tmp_path, arch="s390x", devices=())
    info = places_of({"dev": options})
    with running.NameClaim("dev") as claim, daemon.open_exec_servers(claim, info, {"dev": guest}):
        result = CliRunner().invoke(main, ["exec", "dev", "--", "./repro", "50"])
    assert result.exit_code == 126
    assert "./repro is a program of amd64, and the guest is s390x" in result.output


@pytest.mark.parametrize("words", [["exec"], ["lab", "exec", "--lab", "dev"]])
def test_a_command_starts_in_the_shared_directory(sharing, words):
    (sharing / "reproducer").write_text("#!/bin/sh\npwd; exit 3\n")
    (sharing / "reproducer").chmod(0o755)
    run = [*words, "dev", "--", "./reproducer"]
    result = CliRunner().invoke(main, run)
    assert (result.exit_code, result.output) == (3, f"{sharing}\n")
    result = CliRunner().invoke(main, [*words, "--cwd", "/", "dev", "--", "pwd"])
    assert (result.exit_code, result.output) == (0, "/\n")
    shutil.copy(sharing / "reproducer", sharing / "a=1")  # no setting of the environment
    result = CliRunner().invoke(main, [*words, "dev", "--", "./a=1"])
    assert (result.exit_code, result.output) == (3, f"{sharing}\n")
    (sharing / "in").mkdir()
    result = CliRunner().invoke(main, [*words, "--cwd", "in", "--env", "V=1", "dev", "--", "pwd"])
    assert (result.exit_code, result.output) == (0, f"{sharing}/in\n")
    (sharing / "in" / "file").touch(0o644)
    result = CliRunner().invoke(main, [*words, "--cwd", "in", "dev", "--", "./file"])
    why = f"./file: not executable: chmod +x {sharing}/in/file"
    assert (result.exit_code, why in result.output) == (126, True)
    (sharing / "reproducer").chmod(0o644)
    result = CliRunner().invoke(main, run)
    why = f"./reproducer: not executable: chmod +x {sharing}/reproducer"
    assert (result.exit_code, why in result.output) == (126, True)
    result = CliRunner().invoke(main, [*words, "dev", "--", "reproducer"])
    why = "reproducer is a file of the shared directory: not executable"
    assert (result.exit_code, why in result.output) == (127, True)


def test_a_file_of_the_host_that_exec_does_not_find(open_guest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reproducer").touch(0o755)
    with contextlib.chdir("/"):
        word = f"{tmp_path}/reproducer"
        monkeypatch.setattr(execute, "placed", lambda *_, **__: ["/nowhere/reproducer"])
        result = CliRunner().invoke(main, ["exec", "one", "--", word])
    assert result.exit_code == 127
    assert f"share its directory: --share {tmp_path}" in result.output


def test_of_two_guests_names_are_told(open_guest, clients, monkeypatch, tmp_path):
    """A server without a name is not among them; a rule is no guest."""
    paths = [Path("/nowhere/control"), tmp_path / "second", tmp_path / "x"]
    monkeypatch.setattr(control, "sockets", lambda: paths)
    with FakeGuest() as other, running.NameClaim("two") as claim:
        other.control_socket = paths[1]
        with daemon.open_exec_servers(claim, {}, {"two": other}):
            for words in (["status"], ["fault", "remove", "r1"]):
                result = CliRunner().invoke(main, words)
                assert result.exit_code == 1
                assert result.output.endswith("2 guests or labs run; choose one:\n  one\n  two\n")
    result = CliRunner().invoke(main, ["fault", "remove", "one"])
    assert (result.exit_code, "one is a guest: add the names" in result.output) == (2, True)
    for words, example in ((["net", "set"], "loss=1"), (["fault", "add"], "point=cmd action=fail")):
        result = CliRunner().invoke(main, [*words, "one"])
        assert f"one is a guest: add KEY=VALUE, such as {example}\n" in result.output
        assert "'none' is not KEY=VALUE" in CliRunner().invoke(main, [*words, "none"]).output
    result = CliRunner().invoke(main, ["status", "two"])
    assert "no guest or lab named two is running; running: one" in result.output
    result = CliRunner().invoke(main, ["status", "one", "--control", "/x"])
    assert "NAME or --control, not both" in result.output


def test_ps_shows_states(open_guest):
    """Each guest's by its name where they differ."""
    with FakeGuest() as other, running.NameClaim("two") as claim:
        other.state = "off"
        with daemon.open_exec_servers(claim, {"suite": "x"}, {"h1": open_guest, "h2": other}):
            said = CliRunner().invoke(main, ["ps"]).output
            open_guest.state = "off"
            later = CliRunner().invoke(main, ["ps"]).output
    assert [line.split()[2:4] for line in said.splitlines() if " x " in line] == [
        ["up", "x"],
        ["h2", "h1:"],
    ]
    assert "h2: off" in said
    assert "h1:" not in later


def test_ps_as_json_has_the_columns_as_keys(open_guest):
    with FakeGuest() as other, running.NameClaim("two") as claim:
        about = {"suite": "x", "devices": ["connectx6dx"]}
        with daemon.open_exec_servers(claim, about, {"h1": open_guest, "h2": other}):
            rows = json.loads(CliRunner().invoke(main, ["ps", "--json"]).output)
            heading = CliRunner().invoke(main, ["ps"]).output.split("\n")[0]
    assert all(list(row) == heading.split() for row in rows)
    (two,) = [row for row in rows if row["name"] == "two"]
    assert (two["guests"], two["state"], two["functions"]) == (["h1", "h2"], "up", ["connectx6dx"])


def test_ps_as_json_without_guests():
    assert CliRunner().invoke(main, ["ps", "--json"]).output == "[]\n"


def test_where_a_command_runs_and_with_what(open_guest, tmp_path):
    words = ["exec", "--cwd", str(tmp_path), "--env", "A=b c", "--env", "D=", "one", "--"]
    result = subprocess.run(
        [*module_command("emu"), *words, "sh", "-c", 'pwd; echo "$A-$D-$HOME"'],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert result.stdout == f"{tmp_path}\nb c--/root\n"


@pytest.mark.parametrize(
    ("option", "status", "reason"),
    [
        (["--cwd", "/no/such"], 125, "cannot change directory to '/no/such'"),
        (["--user", "nobody-here"], 125, "nobody-here"),
        (["--env", "=x"], 2, "'=x' is not NAME=VALUE"),
        (["--env", "x"], 2, "'x' is not NAME=VALUE"),
    ],
)
def test_a_place_that_is_not_there(open_guest, option, status, reason):
    result = subprocess.run(
        [*module_command("emu"), "exec", *option, "one", "--", "true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == status
    assert reason in result.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_a_command_of_another_user(open_guest):
    words = placed(["sh", "-c", "echo $USER $HOME $A; id -u"], settings=["A=b"], user="nobody")
    assert output_of("one", words) == b"nobody /nonexistent b\n65534\n"


@pytest.mark.parametrize(("words", "boots"), [([], ["soft"]), (["--hard"], ["hard"])])
def test_reboot(open_guest, words, boots):
    result = CliRunner().invoke(main, ["reboot", *words, "one"])
    assert (result.exit_code, open_guest.boots) == (0, boots)
    assert re.fullmatch(r"one is up again after \d+\.\d s\n", result.stdout)


@pytest.mark.parametrize("words", [[], ["--hard"]])
@pytest.mark.parametrize("state", ["panicked", "off"])
def test_a_reboot_of_a_guest_that_has_ended_says_what_to_do(open_guest, monkeypatch, words, state):
    def reboot(*, hard=False):
        raise GuestPanicError("the guest panicked: why")

    monkeypatch.setattr(open_guest, "reboot", reboot)
    open_guest.state = state
    result = CliRunner().invoke(main, ["reboot", *words, "one"])
    assert result.exit_code == 125
    assert result.output == (
        "mlx5emu: one: the guest panicked: why; mlx5emu dump one FILE saves its memory, "
        "mlx5emu down one ends it\n"
    )


def test_a_reboot_in_a_lab_says_that_the_commands_of_its_file_have_not_run(open_guest):
    with (
        running.NameClaim("two") as claim,
        daemon.open_exec_servers(claim, {"lab": True}, {"h1": open_guest}),
    ):
        result = CliRunner().invoke(main, ["reboot", "two/h1"])
    assert "commands, such as addresses, did not run again" in result.stdout


def test_a_log_that_is_followed(tmp_path):
    """Until the guest's dmesg ends; a character that comes in two parts is one."""
    program = tmp_path / "dmesg"
    program.write_text(
        f"#!/bin/sh\nshown() {{ until [ -e {tmp_path}/shown$1 ]; do sleep 0.02; done; }}\n"
        "printf 'a \\303'; shown 1; printf '\\244\\033[1m\\n'; shown 2; echo b"
    )
    program.chmod(0o755)
    with (
        FakeGuest(str(tmp_path)) as guest,
        running.NameClaim("one") as claim,
        daemon.open_exec_servers(claim, {"suite": "x"}, {"one": guest}),
    ):
        shown = []

        def show(text):
            shown.append(text)
            (tmp_path / f"shown{len(shown)}").touch()

        follow_log("one", show)
        result = CliRunner().invoke(main, ["dmesg", "-w", "one"])
    assert len(shown) == 3
    assert (result.exit_code, result.output) == (0, "".join(shown))
    assert result.output.startswith("a \u00e4")
    assert "\033" not in result.output


def test_dmesg_of_a_guest_that_has_panicked(open_guest):
    open_guest.state = "panicked"
    result = CliRunner().invoke(main, ["dmesg", "one"])
    assert result.exit_code == 0
    assert result.output.startswith("its console\n")
    assert "one: panicked; this log is from its console" in result.output


class TestLogs:
    def logs(self, *words):
        result = CliRunner().invoke(main, ["logs", *words, "one"])
        return result.exit_code, result.output

    def test_of_each_process(self, open_guest, tmp_path):
        for of in ("console", "server"):
            (tmp_path / of).write_bytes(b"%s: a\xc3\xa4\033\r\n" % of.encode())
            open_guest.log_files[of] = tmp_path / of
        open_guest.log_files["qemu"] = tmp_path / "not there"
        assert self.logs() == (0, "server: a\u00e4\\x1b\n")
        assert self.logs("--of", "console") == (0, "console: a\u00e4\\x1b\n")
        assert self.logs("--of", "qemu") == (0, "mlx5emu: the log is empty\n")

    def test_without_functions(self, open_guest):
        status, said = self.logs()
        assert status == 1
        assert "one has no functions" in said

    def test_followed_until_the_guest_ends(self, open_guest, tmp_path):
        """A character that is written in two parts is one."""
        log = open_guest.log_files["server"] = tmp_path / "server"
        log.write_bytes(b"a \xc3")

        def go_on():
            with log.open("ab") as file:
                file.write(b"\xa4\n")
            open_guest.state = "off"

        timer = threading.Timer(0.8, go_on)
        timer.start()
        assert self.logs("-w") == (0, "a \u00e4\n")
        timer.join()


def test_what_a_client_has_started_ends_with_it(open_guest, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with attached("one") as channel:
        channel.start("it", ["sh", "-c", f"exec 3>{fifo}; sleep 1000"], {})
        reader = os.open(fifo, os.O_RDONLY)
    assert os.read(reader, 1) == b""  # the writer is gone
    os.close(reader)


def test_a_command_that_is_not_there_has_a_shells_status(open_guest):
    with attached("one") as channel:
        assert channel.start("it", ["/no/such"], {}).wait(30) == 127


def test_a_guest_that_dies_fails_the_command_with_its_reason(open_guest):
    with attached("one") as channel:
        job = channel.start("it", ["sleep", "1000"], {})
        open_guest.channel.fail(GuestHungError("no sign of life", "last lines"))
        with pytest.raises(GuestError, match="no sign of life") as caught:
            job.wait(30)
    assert caught.value.status == GuestHungError.status
    assert caught.value.console == "last lines"
    with pytest.raises(GuestError, match="no sign of life"):
        output_of("one", ["true"])


def test_output_of_a_command_that_fails_is_an_error(open_guest):
    assert output_of("one", ["echo", "hello"]) == b"hello\n"
    with pytest.raises(GuestError, match="status 3: bad"):
        output_of("one", ["sh", "-c", "echo bad >&2; exit 3"])


@pytest.mark.hostile
def test_garbage_ends_its_own_connection_alone(open_guest):
    path = running.find_guest("one")
    hello = frames.encode(frames.HELLO, 0, frames.MARK)
    bad = [
        hello + frames.HEADER.pack(frames.RUN, 1, frames.MAX_PAYLOAD + 1),
        hello + frames.encode(frames.RUN, 1, b"\0\0\0\1\0"),
        hello + frames.encode(frames.ASK, 1, b"[]"),
        hello + frames.encode(frames.ASK, 1, b'{"what": "all"}'),
        hello + frames.encode(frames.ASK, 1, b'{"what": "dump"}'),
        hello + frames.encode(frames.RUN, 1, frames.encode_command(["true"], ["novalue"], False)),
    ]
    for data in bad:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.settimeout(30)
            client.sendall(data)
            while client.recv(4096):
                pass
    assert output_of("one", ["echo", "fine"]) == b"fine\n"


def test_a_name_is_taken_once(open_guest):
    with pytest.raises(LabError, match="one is already running: mlx5emu down one ends it"):
        running.NameClaim("one")
    assert [entry.name for entry in running.entries()] == ["one"]
    assert running.find("one").pid == os.getpid()


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "x" * 33, "a b", "\x1b"])
def test_what_is_no_name(name):
    with pytest.raises(LabError, match="underscores; the first is a letter or digit"):
        running.NameClaim(name)


@pytest.mark.parametrize("name", ["1_a", "a.b-c", "x" * 32])
def test_valid_names(name):
    running.check_name(name)


def test_a_name_without_any_guest_comes_with_the_command_that_starts_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(LabError, match="no guest runs; mlx5emu up starts one"):
        running.find("two")


def test_unknown_names_come_with_those_that_run(open_guest):
    with pytest.raises(LabError, match="no guest or lab named two is running; running: one"):
        running.find("two")
    with pytest.raises(LabError, match="no guest one/two: choose one of one/one"):
        running.find_guest("one/two")


def test_nothing_is_left_of_a_name(runtime, guest):
    with running.NameClaim("one") as claim, daemon.open_exec_servers(claim, {}, {"one": guest}):
        pass
    assert not running.entries()
    assert not list(runtime.iterdir())


def test_what_killed_runs_leave_goes_with_the_next_name(runtime):
    with running.NameClaim("run-1"), running.NameClaim("dev"):
        for name in ("run-22", "run-33", "run-it"):
            (runtime / f"{name}.lock").touch()
        (runtime / "run-22").mkdir()
        with running.NameClaim("one"):
            names = {path.name for path in runtime.iterdir()}
    held = {"run-1", "run-1.lock", "dev", "dev.lock", "one", "one.lock"}
    assert names == {*held, "run-it.lock"}


def test_a_runtime_directory_of_others_is_refused(runtime):
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    with pytest.raises(LabError, match=r"open to others \(mode 0777.*belongs to you alone"):
        running.entries()


@pytest.mark.hostile
def test_nobody_can_be_there_first(tmp_path, monkeypatch):
    """Without XDG_RUNTIME_DIR it is below the user's own, never where everybody may write."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = running.directory()
    assert path.parent in (Path(f"/run/user/{os.getuid()}"), tmp_path / "cache" / "mlx5emu")
    assert path.stat().st_mode & 0o077 == 0
    assert running.directory() == path


@pytest.mark.hostile
def test_a_runtime_directory_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(running, "_place", lambda: tmp_path / "file" / "mlx5emu")
    with pytest.raises(LabError, match=r"cannot make .*Not a directory.*XDG_RUNTIME_DIR"):
        running.directory()
    monkeypatch.setattr(running, "_place", lambda: tmp_path / "file")
    with pytest.raises(LabError, match="is not a directory"):
        running.directory()


def test_a_guest_is_kept_by_a_process_of_its_own(kept):
    daemon.launch("kept", {"suite": "x"}, fake)
    entry = running.find("kept")
    assert entry.pid != os.getpid()
    assert output_of("kept", ["echo", "there"]) == b"there\n"
    assert output_of("kept", ["echo", "again"]) == b"again\n"
    inside = int(output_of("kept", ["sh", "-c", "echo $PPID"]))
    assert daemon.end(entry) is None
    assert not running.entries()
    assert not entry.path.exists()
    assert not Path(f"/proc/{inside}").exists()


def with_a_full_disk(stack):
    """A guest whose server has its record on a full disk."""
    guest = stack.enter_context(FakeGuest())

    def lose_server(error):
        guest.server_failure = error

    work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = DeviceServer(
        ["connectx6"],
        directory=work,
        log=work / "log",
        record=Path("/dev/full"),
        on_end=lose_server,
    )
    stack.callback(server.stop)
    server.start()
    return {"kept": guest}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["down", "--all"], ["down", "full", "kept"]])
def test_down_tells_of_a_file_that_a_full_disk_has_cut_short(kept, words):
    """All are ended first."""
    daemon.launch("full", {}, with_a_full_disk)
    daemon.launch("kept", {}, fake)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == ServerError.status == 123
    assert "full is down\nkept is down\n" in done.output
    assert done.output.splitlines()[-1] == (
        "mlx5emu: full: the device server ended with status 1: "
        "the record /dev/full is not complete: No space left on device"
    )
    assert not running.entries()


def test_down_tells_of_every_server_that_has_failed(kept):
    def failing(name):
        def start(stack):
            guest = stack.enter_context(FakeGuest())
            guest.server_failure = ServerError(f"no {name}")
            return {"one": guest, "two": guest}

        return start

    for name in ("a", "b"):
        daemon.launch(name, {"lab": True}, failing(name))
    done = CliRunner().invoke(main, ["down", "--all"])
    assert done.exit_code == 123
    assert sorted(done.output.splitlines()) == [
        *("a is down", "b is down", "mlx5emu: a: no a", "mlx5emu: b: no b"),
    ]
    daemon.launch("c", {"lab": True}, failing("c"))
    done = CliRunner().invoke(main, ["lab", "down"])
    assert (done.exit_code, done.output) == (123, "c is down\nmlx5emu: c: no c\n")
    daemon.launch("d", {}, fake)
    done = CliRunner().invoke(main, ["down", "d"])
    assert (done.exit_code, done.output) == (0, "d is down\n")


def test_what_a_server_says_waits_for_nobody(kept):
    """Who ends the process in another way does not hear it; nothing is left of the name."""

    def start(stack):
        guest = stack.enter_context(FakeGuest())
        guest.server_failure = ServerError("never heard")
        return {"kept": guest}

    daemon.launch("kept", {}, start)
    entry = running.find("kept")
    os.kill(entry.pid, signal.SIGTERM)
    os.waitpid(entry.pid, 0)
    assert not running.entries()
    assert not entry.path.exists()


def test_a_start_that_fails_tells_why_and_leaves_nothing():
    def start(_stack):
        raise GuestError("it does not boot", "its last lines")

    with pytest.raises(GuestError, match="it does not boot") as caught:
        daemon.launch("kept", {}, start)
    assert caught.value.console == "its last lines"
    assert not running.entries()


UP = """
import signal
import sys
from pathlib import Path
from emu.guests.named import daemon

signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest may run in the background

def start(stack):
    stack.callback(Path(sys.argv[1]).write_text, "stopped")
    open(sys.argv[2]).read()  # until the test lets it
    return {}

daemon.launch("slow", {}, start)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_start_leaves_nothing(tmp_path, runtime, number):
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    words = [sys.executable, "-c", UP, str(log), str(gate)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        with gate.open("w"):  # it has begun to start
            process.send_signal(number)
            process.wait()
        # The process in the background ends, and its lock's file with it.
        with contextlib.suppress(FileNotFoundError), (runtime / "slow.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    assert log.read_text() == "stopped"
    assert not running.entries()
    assert not (runtime / "slow").exists()


FORKING = """
import os
import signal
from emu.guests.named import daemon

signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
daemon.launch("slow", {}, lambda _stack: signal.pause())
"""


def test_an_interrupt_right_after_the_fork_ends_the_start(runtime):
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert not (runtime / "slow").exists()


def test_a_door_needs_a_path_that_fits(guest, tmp_path):
    with pytest.raises(OSError, match="107 bytes"):
        ExecServer(guest, tmp_path / ("x" * 120))


def test_errors_travel_between_processes():
    error = reported_failure(as_reported(GuestHungError("a\x1b", "b")))
    assert (str(error), error.console, error.status) == ("a\\x1b", "b", 124)
    for data in (b"[]", b'{"message": "a", "console": "b", "status": Infinity}'):
        assert "cannot be read" in str(reported_failure(data))


@pytest.mark.parametrize(
    "words",
    [
        ("exec", "one", "--", "true"),
        ("exec", "-t", "one"),
        ("cp", "/etc/passwd", "one:/tmp"),
        ("cp", "one:/etc/passwd", "FILE"),
        ("dmesg", "--follow", "one"),
    ],
)
def test_a_guest_that_has_panicked_is_told_in_one_line(open_guest, words, tmp_path, monkeypatch):
    def panicked():
        raise GuestPanicError("the guest panicked: sysrq triggered crash")

    monkeypatch.setattr(open_guest, "await_boot", panicked)
    result = CliRunner().invoke(
        main, [str(tmp_path / "file") if word == "FILE" else word for word in words]
    )
    assert result.exit_code == 125
    assert result.output == "mlx5emu: one: the guest panicked: sysrq triggered crash\n"


class SilentChannel:
    """A channel whose guest has ended."""

    is_ready = False

    def __init__(self, error):
        self._error = error

    def start(self, *_, **__):
        raise self._error

    def fail(self, error):
        pass

    def close(self):
        pass


def test_the_console_of_a_panic_is_told_once(monkeypatch):
    """Whoever waits while the guest panics sees it; later ones are told the reason."""
    guest, panic = Guest(), GuestPanicError("the guest panicked: why")
    guest._vm = SimpleNamespace(
        console="[1.0] Kernel panic - not syncing: why\n", stop=lambda: None
    )
    guest._channel = SilentChannel(panic)
    monkeypatch.setattr(Guest, "state", "up")
    with pytest.raises(GuestPanicError) as first:
        guest.run("true")
    assert "Kernel panic" in first.value.console
    guest._record_end(panic)
    for later in (lambda: guest.run("true"), guest.await_boot):
        with pytest.raises(GuestPanicError, match="the guest panicked: why") as caught:
            later()
        assert caught.value.console == ""


def test_a_command_that_takes_too_long_shows_no_console():
    guest = Guest()
    guest._vm = SimpleNamespace(console="[1.0] of the boot\n", stop=lambda: None)
    job = SimpleNamespace(wait=lambda *_: (_ for _ in ()).throw(CommandTimeoutError("too long")))
    with pytest.raises(CommandTimeoutError) as caught:
        guest.wait(job, 1.0)
    assert caught.value.detail() == ""


@pytest.mark.parametrize(("words", "stays"), [((), False), (("--keep",), True)])
def test_a_lab_whose_command_fails(words, stays, kept, tmp_path, monkeypatch):
    """With --keep its guests stay up; the failure is told, with its status, in both cases."""

    def start(_, stack, complain):
        error = CommandFailedError("lab.toml:3: guest kept: false: status 1")
        if complain is None:
            raise error
        complain(error)
        return fake(stack)

    file = tmp_path / "lab.toml"
    file.write_text('[[guest]]\nname = "kept"\ncommands = ["false"]\n')
    monkeypatch.setattr("emu.cli.commands.guests.lab.prepare", lambda *_: None)
    monkeypatch.setattr("emu.guests.named.hosts.start", start)
    result = CliRunner().invoke(main, ["lab", "up", *words, str(file)])
    assert result.exit_code == 1
    assert "mlx5emu: lab.toml:3: guest kept: false: status 1\n" in result.output
    assert ("lab is still up: kept; mlx5emu exec lab/kept -- COMMAND" in result.output) == stays
    assert running.is_held("lab") == stays
    if stays:
        assert output_of("lab/kept", ["echo", "here"]) == b"here\n"


def test_who_has_a_name_that_two_guests_have(kept, tmp_path, monkeypatch):
    """A guest of `up` takes it from a lab's guest; a lab's guest does not take it."""
    monkeypatch.setattr("emu.cli.commands.guests.up.prepare", lambda *_: None)
    monkeypatch.setattr("emu.cli.commands.guests.up.Guest", lambda _options: FakeGuest())
    monkeypatch.setattr("emu.cli.commands.guests.lab.prepare", lambda *_: None)
    monkeypatch.setattr("emu.guests.named.hosts.start", lambda _, stack, __: fake(stack))
    with labs(roce=["kept", "h2"]):
        result = CliRunner().invoke(main, ["up", "kept"])
        assert "kept is up" in result.output
        assert "mlx5emu: kept means this guest now, not roce/kept\n" in result.output
    file = tmp_path / "new.toml"
    file.write_text('[[guest]]\nname = "kept"\n')
    result = CliRunner().invoke(main, ["lab", "up", str(file)])
    assert "new is up: kept" in result.output
    assert "mlx5emu: kept is another guest: use new/kept\n" in result.output
