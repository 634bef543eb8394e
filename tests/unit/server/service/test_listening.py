"""Addresses and paths to listen on that are not to be had are told before anything starts."""

from __future__ import annotations

import contextlib
import socket

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.server.net.eth.spec import NetSpecError, parse
from emu.server.net.fabric.address import FabricError
from emu.server.service.listening import check_fabric, check_uplinks


@pytest.fixture(params=[socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
def taken(request):
    """A protocol, and a port of the loopback that another program has."""
    with socket.socket(socket.AF_INET, request.param) as sock:
        sock.bind(("127.0.0.1", 0))
        if request.param == socket.SOCK_STREAM:
            sock.listen()
        yield "tcp" if request.param == socket.SOCK_STREAM else "udp", sock.getsockname()[1]


@pytest.fixture
def free():
    """A port that nobody has."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    return port


def check(*texts):
    check_uplinks([parse(text) for text in texts])


def test_a_port_in_use(taken):
    protocol, port = taken
    with pytest.raises(NetSpecError, match=f"{protocol} port {port} of 127.0.0.1 is in use"):
        check(f"user,forward={protocol}:{port}:80")


def test_a_port_twice(free):
    with pytest.raises(NetSpecError, match=f"tcp port {free} of 127.0.0.1 is in use"):
        check(f"user,forward=tcp:{free}:80", f"user,segment=1,forward=tcp:{free}:81")


def test_a_port_is_free_again_after_the_check(free):
    for _ in range(2):
        check(f"user,forward=tcp:{free}:80,forward=udp:{free}:80")


def test_an_address_that_the_host_does_not_have(free):
    with pytest.raises(NetSpecError, match="the host has no such address"):
        check(f"user,forward=tcp:192.0.2.1/{free}:80")


def test_an_address_that_is_none(free):
    with pytest.raises(NetSpecError, match=f"tcp port {free} of 1.2.3.4.5: "):
        check(f"user,forward=tcp:1.2.3.4.5/{free}:80")


@pytest.fixture
def places(tmp_path):
    """A file, the socket of another process, and one of a process that is gone."""
    (tmp_path / "file").touch()
    with contextlib.ExitStack() as stack:
        for name in ("live", "dead"):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.bind(str(tmp_path / name))
            sock.listen()
            if name == "dead":
                sock.close()
        yield tmp_path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file", "/file: exists and is not a socket"),
        ("live", "/live: another process listens at this path"),
        ("lvie/x", "no directory .*/lvie; near it: live"),
        ("x" * 200, "the path of a socket has at most 107 bytes"),
    ],
)
def test_a_path_where_no_stream_can_be(places, name, why):
    with pytest.raises(NetSpecError, match=why):
        check(f"stream={places / name}")


@pytest.mark.parametrize("name", ["dead", "new"])
def test_a_path_where_a_stream_can_be_is_left_as_it_is(places, name):
    before = sorted(places.iterdir())
    check(f"stream={places / name}")
    assert sorted(places.iterdir()) == before


def test_a_fabric_is_shared(places):
    for name in ("live", "dead", "new"):
        check_fabric(f"unix:{places / name}")
    with pytest.raises(FabricError, match="/file: exists and is not a socket"):
        check_fabric(f"unix:{places / 'file'}")
    with pytest.raises(FabricError, match=r"no directory .*/lvie; near it: live"):
        check_fabric(f"unix:{places / 'lvie' / 'x'}")


@pytest.mark.parametrize("command", ["run", "up"])
def test_a_user_is_told_before_a_boot(command, taken, places, monkeypatch):
    def start(*_, **__):
        raise AssertionError("something starts")

    monkeypatch.setattr("emu.guests.guest.guest.Guest.start", start)
    monkeypatch.setattr("emu.guests.named.daemon.launch", start)
    protocol, port = taken
    for option, value, why in (
        ("--net", f"user,forward={protocol}:{port}:80", f"{protocol} port {port} of 127.0.0.1 is"),
        ("--net", f"stream={places / 'live'}", "another process listens at this path"),
        ("--fabric", f"unix:{places / 'file'}", "exists and is not a socket"),
    ):
        result = CliRunner().invoke(main, [command, option, value, "x"])
        assert result.exit_code == 2
        assert f"Invalid value for {option}: " in result.output
        assert why in result.output


def test_a_lab_has_the_line(taken, tmp_path):
    protocol, port = taken
    file = tmp_path / "lab.toml"
    file.write_text(
        '[[guest]]\nname = "a"\n[server]\n'
        f'nets = ["user,forward={protocol}:{port}:80"]\nfabric = "unix:{tmp_path}/no/x"\n'
    )
    result = CliRunner().invoke(main, ["lab", "up", str(file)])
    assert (
        f"{file}:4: --net forward: {protocol} port {port} of 127.0.0.1 is in use" in result.output
    )
    assert f"{file}:5: fabric unix:{tmp_path}/no/x: no directory" in result.output


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (("--socket", "live"), "live: another process listens at this path"),
        (("--socket", "file"), "file: exists and is not a socket"),
        (("--socket", "s", "--socket", "./s"), "--socket names s twice: each needs"),
        (("--socket", "s", "--control", "s"), "s is a path of --socket and of --control"),
        (("--socket", "s", "--trace", "./s"), "s is a path of --socket and of --trace"),
        (("--socket", "dead", "--pcap", "dead"), "dead is a path of --socket and of --pcap"),
        (("--socket", "r", "--net", "stream=s", "--record", "s"), "of --net and of --record"),
        (("--socket", "r", "--fabric", "unix:s", "--trace", "s"), "of --fabric and of --trace"),
        (("--socket", "r", "--device", "connectx6,vfs=2", "--trace", "r.vf1"), "r.vf1 is a path"),
        (("--socket", "none/s"), "none/s: "),
        (("--socket", "s", "--control", "live"), "live: another process listens at this path"),
        (("--socket", "s", "--net", "stream=file"), "file: exists and is not a socket"),
        (("--socket", "s", "--net", "user,forward=tcp:0:1"), "use forward=tcp:"),
        (("--socket", "s", "--fabric", "unix:file"), "exists and is not a socket"),
        (("--socket", "s", "--device", "x"), "unknown model 'x'"),
    ],
)
def test_serve(option, why, places, monkeypatch):
    monkeypatch.chdir(places)
    result = CliRunner().invoke(main, ["serve", *option])
    assert result.exit_code == 2
    last = result.output.splitlines()[-1]
    assert last.startswith("Error: ")
    assert "[Errno" not in last
    assert why in last
    assert {path.name for path in places.iterdir()} == {"dead", "file", "live"}
