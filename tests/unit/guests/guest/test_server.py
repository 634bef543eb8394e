"""The device server as a child process: ready, gone before, gone later."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from emu.guests import GuestOptions
from emu.guests.architecture import NATIVE
from emu.guests.errors import ServerError
from emu.guests.guest import server as module
from emu.guests.guest.server import DeviceServer


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a server whose program is ``script``; it gets the command's words as its own."""
    servers = []

    def start_script(script, **options):
        interpreter = tmp_path / "python"
        interpreter.write_text(
            f'#!/bin/sh\nuntil [ "$1" = serve ]; do shift; done; shift\n{script}\n'
        )
        interpreter.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(interpreter))
        ended = threading.Event()
        errors = []
        server = DeviceServer(
            ["connectx6", "connectx7"],
            directory=tmp_path,
            log=tmp_path / "server.log",
            on_end=lambda error: (errors.append(error), ended.set()),
            **options,
        )
        servers.append(server)
        server.start()
        return server, ended, errors

    yield start_script
    for server in servers:
        server.stop()


def test_each_function_has_a_socket(start, tmp_path):
    trace = tmp_path / "trace"
    script = f'echo "$@" > {tmp_path}/words; echo "-device ..."; echo ready; exec sleep 1000'
    server, ended, _ = start(script, trace=trace, options=("--transport", "x"))
    assert server.sockets == (tmp_path / "function0", tmp_path / "function1")
    assert (tmp_path / "words").read_text().split() == [
        *("--socket", str(server.sockets[0]), "--device", "connectx6"),
        *("--socket", str(server.sockets[1]), "--device", "connectx7"),
        *("--trace", str(trace), "--control", str(tmp_path / "control"), "--transport", "x"),
    ]
    server.stop()
    assert not ended.is_set()


def test_a_record_tells_what_a_replay_needs_of_the_guest(tmp_path):
    kernel = tmp_path / "bzImage"
    kernel.touch()
    options = GuestOptions(
        suite="sid", packages=("bc",), kernel=kernel, modules=tmp_path, record=tmp_path / "record"
    )
    words = DeviceServer.of_guest(options, tmp_path, None, print)._command
    assert json.loads(words[words.index("--run") + 1]) == {
        "suite": "sid", "arch": NATIVE.name, "packages": ["bc"],
        "pip": [], "wheels": [],
        "kernel": str(kernel), "modules": str(tmp_path),
        "network": False, "memory": 2048, "cpus": 2, "icount": None, "hugepages": 0,
        "iommu": False, "probe": True, "share": None,
        "cold": False, "kernel_args": [],
    }  # fmt: skip


def test_one_that_does_not_get_ready_says_why(start):
    with pytest.raises(ServerError, match="ended with status 3: no model of that name"):
        start('echo "no model of that name" >&2; exit 3')


def test_one_that_does_not_take_its_options_says_why_in_one_line(start):
    with pytest.raises(ServerError, match=r"^tcp port 80 is in use$") as caught:
        start('echo "Usage: serve" >&2; echo "Error: tcp port 80 is in use" >&2; exit 2')
    assert caught.value.status == 2


def test_one_that_is_never_ready_is_given_up(start, monkeypatch):
    monkeypatch.setattr(module, "READY_TIMEOUT", 0.2)
    with pytest.raises(ServerError, match=r"not ready within 0\.2 s"):
        start("exec sleep 1000")


def test_an_end_is_told(start):
    _, ended, errors = start("echo ready; echo bad >&2; exit 3")
    assert ended.wait(30)
    assert str(errors[0]) == "the device server ended with status 3: bad"


def test_a_kill_is_told_by_its_signal(start):
    """Its last line, such as that of the device code, is not the reason."""
    _, ended, errors = start("echo ready; echo device code >&2; kill -KILL $$")
    assert ended.wait(30)
    assert str(errors[0]) == "the device server was killed by SIGKILL"


@pytest.mark.hostile
def test_a_file_that_is_not_complete_is_told_at_the_end(start):
    said = "mlx5emu: the trace t is not complete: No space left on device"
    server, ended, errors = start(
        f"trap 'echo \"{said}\" >&2; exit 1' TERM; echo ready; sleep 1000 & wait; wait"
    )
    server.stop()
    assert ended.is_set()
    assert str(errors[0]) == f"the device server ended with status 1: {said[9:]}"


def test_being_torn_out_is_not_told(start):
    server, ended, _ = start("echo ready; exec sleep 1000")
    server.kill()
    server.stop()
    assert not ended.is_set()


LATE = """[[rule]]
point = "load"
action = "event"
event = "PPS_EVENT"
[expect]
row = "a pulse"
does = "It looks."
"""


@pytest.mark.parametrize(
    ("plan", "when", "is_late"),
    [
        (LATE, None, True),
        (LATE + 'when = "loading"\n', None, False),
        (LATE.partition("[expect]")[0], None, False),
        ('when = "loaded"\n' + LATE.partition("[expect]")[0], None, True),
        ('when = "loading"\n' + LATE, None, False),
        (LATE.partition("[expect]")[0], "loaded", True),
        (LATE, "loading", False),
    ],
)
def test_a_plan_begins_when_it_says(start, tmp_path, monkeypatch, plan, when, is_late):
    """Before the boot, or by the control socket when the driver is up; then it is loaded once."""
    path, loaded = tmp_path / "plan.toml", []
    path.write_text(plan)

    class Control:
        def __init__(self, socket):
            assert socket == tmp_path / "control"

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        load_plan = loaded.append

    monkeypatch.setattr(module, "Client", Control)
    script = f'echo "$@" > {tmp_path}/words; echo ready; exec sleep 1000'
    server, _, _ = start(script, faults=path, faults_when=when, record=tmp_path / "record")
    words = (tmp_path / "words").read_text().split()
    assert ("--faults" in words, "--record" in words) == (not is_late, True)
    assert ("--faults-when" in words) == (when is not None and not is_late)
    assert server.has_late_plan == is_late
    assert loaded == []
    server.arm()
    server.arm()
    assert loaded == [plan] * is_late


def test_a_late_plan_that_cannot_be_loaded_is_the_servers_failure(start, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(LATE)
    server, _, _ = start("echo ready; exec sleep 1000", faults=path)
    with pytest.raises(ServerError, match="the fault plan could not be loaded"):
        server.arm()
