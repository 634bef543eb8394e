"""Topologies: what a file means, what is wrong with one, and the order in which guests start."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from emu.cli.commands.guests.lab import _checks
from emu.guests import LabError, cache
from emu.guests.errors import CommandFailedError, GuestError, ServerError
from emu.guests.named import hosts, topology

EXAMPLES = Path(__file__).parents[4] / "examples" / "lab"


@pytest.fixture
def read(tmp_path):
    def read_text(text, checks=None):
        path = tmp_path / "topo.toml"
        path.write_text(text)
        return topology.read(path, checks)

    return read_text


def test_guests_are_numbered(read):
    found = read(
        """
name = "mine"
[[guest]]
name = "h{n}"
count = 2
devices = ["connectx6-vf,lid={n}", "connectx7"]
memory = 512
commands = ["echo {n}"]
[[guest]]
name = "other"
devices = []
"""
    )
    assert [node.name for node in found.nodes] == ["h1", "h2", "other"]
    assert found.name == "mine"
    assert found.devices == ("connectx6-vf,lid=1", "connectx7", "connectx6-vf,lid=2", "connectx7")
    assert found.nodes[1].commands == ("echo 2",)
    assert [node.options.memory_mib for node in found.nodes] == [512, 512, 2048]


def test_paths_are_relative_to_the_file(read, tmp_path):
    (tmp_path / "src").mkdir()
    found = read(
        """
[server]
nets = ["user"]
fabric = "unix:/tmp/f"
trace = "t.json"
[[guest]]
name = "a"
share = "src:rw"
out = "results/{n}"
"""
    )
    (node,) = found.nodes
    assert found.name == "topo"
    assert (node.options.share, node.options.share_writable) == (tmp_path / "src", True)
    assert node.options.out == tmp_path / "results" / "1"
    assert found.trace == tmp_path / "t.json"
    assert found.server_options == ("--fabric", "unix:/tmp/f", "--net", "user")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("[[guest]\n", ["topo.toml:1: invalid TOML: .* .column 8.$"]),
        ("", [r"topo.toml:1: no \[\[guest\]\]: at least 1 is needed"]),
        (
            '[[guest]]\nname = "a"\nmemroy = 1\n',
            ["topo.toml:3: no key 'memroy' here; near it: memory.*; there are name"],
        ),
        (
            'nmae = "x"\n[[guest]]\nname = "a"\n',
            ["topo.toml:1: no key 'nmae' here; near it: name; there are name"],
        ),
        (
            '[[guest]]\nname = "a"\n[[guest]]\nmemory = 100\ncpus = "2"\n',
            [
                "topo.toml:3: no name, which is needed here",
                "topo.toml:4: memory: at least 512 is needed, not 100",
                "topo.toml:5: cpus: a whole number is needed",
            ],
        ),
        ('[[guest]]\nname = "a"\n[[guest]]\nname = "a"\n', ["topo.toml:3: two guests are called"]),
        ('[[guest]]\nname = "a"\ncount = 2\n', ['topo.toml:1: 2 guests need .* name = "a{n}"']),
        ("guest = 5\n", ["topo.toml:1: guest: a list is needed"]),
        ("guest = [5]\n", ["topo.toml:1: guest: a table is needed"]),
        (
            '[[guest]]\nname = 5\ndevices = "cx6"\nmemory = 1.5\n'
            'boot_timeout = "x"\niommu = "no"\n',
            [
                "topo.toml:2: name: a string is needed",
                "topo.toml:3: devices: a list is needed",
                "topo.toml:4: memory: a whole number is needed",
                "topo.toml:5: boot_timeout: a number is needed",
                "topo.toml:6: iommu: true or false is needed",
            ],
        ),
        ('[[guest]]\nname = "../a"\n', ["topo.toml:1: '../a' is not a valid name"]),
        ('[[guest]]\nname = "a"\nsuite = "x"\n', ["topo.toml:3: suite: 'x' is not one of book"]),
        (
            '[[guest]]\nname = "a"\nkernel = ["debian:x"]\n',
            ["topo.toml:3: kernel: no kernel debian:x"],
        ),
        (
            '[[guest]]\nname = "a"\n[server]\nx = 1\n',
            ["topo.toml:4: no key 'x' here; there are transport"],
        ),
    ],
)
def test_every_mistake_has_its_line(read, text, messages):
    with pytest.raises(LabError) as caught:
        read(text)
    for message in messages:
        caught.match(message)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            '[server]\nnets = ["user",\n"x"]\nfabric = "y"\nfaults = "none.toml"\n'
            'trace = "topo.toml/no/t"\n'
            '[[guest]]\nname = "a"\n[[guest]]\nname = "b{n}"\ncount = 2\n'
            'devices = ["connectx6,lid={n}00000"]\n',
            [
                "topo.toml:2: --net 'x': use user",
                "topo.toml:4: .*y",
                "topo.toml:5: no file .*none.toml",
                "topo.toml:6: no directory .*/no",
                "topo.toml:12: lid=100000 is not between",
                "topo.toml:12: lid=200000 is not between",
            ],
        ),
        (
            '[[guest]]\nname = "a"\ndevices = ["connectx9"]\n',
            ["topo.toml:3: unknown model 'connectx9'"],
        ),
        (
            '[[guest]]\nname = "a{n}"\ncount = 2\n[[guest]]\nname = "b"\n'
            'devices = ["connectx6,lid=2"]\n',
            ["topo.toml:6: functions 1 and 2 both have lid=2"],
        ),
        (
            '[[guest]]\nname = "a"\nout = "topo.toml/x"\n',
            ["topo.toml:3: out: .*/x cannot be made"],
        ),
        (
            '[[guest]]\nname = "a"\nshare = "no"\n[[guest]]\nname = "a b"\n',
            ["topo.toml:3: share: no directory .*/no", "topo.toml:4: 'a b' is not a valid name"],
        ),
        (
            'name = "a b"\n[[guest]]\nname = "a"\ndevices = ["connectx9"]\nmemroy = 1\n'
            '[[guest]]\nname = "a"\n[[guest]]\nname = "b"\ncpus = "2"\n'
            '[server]\nfaults = "none.toml"\nfabric = 3\n',
            [
                "topo.toml:1: 'a b' is not a valid name",
                "topo.toml:4: unknown model 'connectx9'",
                "topo.toml:5: no key 'memroy'",
                "topo.toml:6: two guests are called a",
                "topo.toml:10: cpus: a whole number is needed",
                "topo.toml:12: no file .*none.toml",
                "topo.toml:13: fabric: a string is needed",
            ],
        ),
    ],
)
def test_what_the_server_would_refuse_is_told_with_its_line(read, text, messages):
    with pytest.raises(LabError) as caught:
        read(text, _checks())
    for message in messages:
        caught.match(message)
    assert str(caught.value).count("topo.toml:") == len(messages)


@pytest.mark.parametrize("guest", ["", "guest = []\n", "guest = 5\n"])
def test_a_file_without_a_guest_has_all_its_mistakes_told(read, guest):
    with pytest.raises(LabError) as caught:
        read(f'{guest}name = "a b"\n[server]\nfaults = "none.toml"\nfabric = 3\n', _checks())
    told = str(caught.value).splitlines()
    assert len(told) == 4, told
    for why in ("guest", "'a b' is not a valid name", "no file", "fabric: a string"):
        assert why in str(caught.value), told


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_good(path):
    assert len(topology.read(path, _checks()).nodes) > 1


class FakeServer:
    made = ()

    def __init__(self, devices, *, directory, on_end, **_):
        self.sockets = tuple(directory / f"function{number}" for number in range(len(devices)))
        self.control = directory / "control"
        self.on_end = on_end
        FakeServer.made = (*FakeServer.made, self)

    def start(self):
        pass

    def arm(self):
        """The plan begins when all guests are up and have run their commands."""
        self.armed_after = FakeGuest.events

    def stop(self):
        pass


class FakeGuest:
    events = ()

    def __init__(self, options, *, served):
        self.options, self.served = options, served
        self.lost = None

    def note(self, event):
        FakeGuest.events = (*FakeGuest.events, (event, self.options.memory_mib))

    def begin(self):
        self.note("begin")

    def wait_ready(self):
        self.note("ready")
        if self.options.memory_mib == 666:
            raise GuestError("it does not boot")

    def stop(self):
        self.note("stop")

    def run(self, command, *, cwd, timeout):
        self.note(command)
        self.cwd = cwd
        return self

    def check(self):
        if self.options.memory_mib == 667:
            raise CommandFailedError("hello: status 7", "no hello here")
        return self

    def lose_server(self, error):
        self.lost = error


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr(hosts, "DeviceServer", FakeServer)
    monkeypatch.setattr(hosts, "Guest", FakeGuest)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(cache, "new_run_dir", lambda: Path("/tmp"))
    FakeServer.made, FakeGuest.events = (), ()


def guests(*memory):
    return "".join(
        f'[[guest]]\nname = "g{number}"\nmemory = {mib}\ncommands = ["hello"]\n'
        for number, mib in enumerate(memory)
    )


def test_no_more_guests_boot_at_once_than_there_are_processors(read, fakes):
    with contextlib.ExitStack() as stack:
        started = hosts.start(read(guests(600, 601, 602)), stack)
        assert list(started) == ["g0", "g1", "g2"]
    assert FakeGuest.events[:6] == (
        *(("begin", 600), ("begin", 601), ("ready", 600), ("hello", 600)),
        *(("begin", 602), ("ready", 601)),
    )
    assert [event for event, _ in FakeGuest.events[-3:]] == ["stop"] * 3


def test_commands_begin_in_the_shared_directory(read, fakes):
    with contextlib.ExitStack() as stack:
        text = guests(600, 601).replace("600", '600\nshare = "."')
        started: dict[str, Any] = hosts.start(read(text), stack)
        assert [guest.cwd for guest in started.values()] == ["/mnt/share", None]


def test_one_server_has_all_functions(read, fakes):
    with contextlib.ExitStack() as stack:
        started: dict[str, Any] = hosts.start(read(guests(600, 601)), stack)
        (server,) = FakeServer.made
        assert server.armed_after == FakeGuest.events  # a plan may be for a driver that is up
        served = [guest.served.sockets for guest in started.values()]
        assert served == [(server.sockets[0],), (server.sockets[1],)]
        server.on_end(ServerError("it is gone"))
        assert [str(guest.lost) for guest in started.values()] == ["it is gone"] * 2


def test_a_guest_that_does_not_boot_is_named_and_the_others_are_stopped(read, fakes):
    with (
        pytest.raises(GuestError, match=r"topo.toml:5: guest g1: it does not boot"),
        contextlib.ExitStack() as stack,
    ):
        hosts.start(read(guests(600, 666, 602)), stack)
    assert ("stop", 600) in FakeGuest.events


def test_a_command_that_fails_is_told_with_its_line_and_the_guests_end(read, fakes):
    with (
        pytest.raises(GuestError, match=r"topo\.toml:8: guest g1: hello: status 7: no hello here$"),
        contextlib.ExitStack() as stack,
    ):
        hosts.start(read(guests(600, 667, 602)), stack)
    assert ("stop", 667) in FakeGuest.events


def test_guests_that_are_kept_stay_up_when_a_command_fails(read, fakes):
    failed: list[GuestError] = []
    with contextlib.ExitStack() as stack:
        text = guests(600, 667, 602).replace('["hello"]', '["hello", "more"]')
        assert list(hosts.start(read(text), stack, failed.append)) == ["g0", "g1", "g2"]
        assert not [event for event, _ in FakeGuest.events if event == "stop"]
        assert FakeServer.made[0].armed_after == FakeGuest.events
    assert [str(error) for error in failed] == [f"{failed[0]}"]
    assert "topo.toml:8: guest g1: hello: status 7" in str(failed[0])
    assert ("more", 667) not in FakeGuest.events
    assert ("more", 602) in FakeGuest.events


def test_guests_that_are_kept_end_when_one_does_not_boot(read, fakes):
    with pytest.raises(GuestError, match="it does not boot"), contextlib.ExitStack() as stack:
        hosts.start(read(guests(600, 666)), stack, lambda _: None)
    assert ("stop", 600) in FakeGuest.events
