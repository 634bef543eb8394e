"""``--net user`` with a real passt: DHCP, ARP and TCP by frames made by hand."""

import os
import shutil
from struct import pack

import pytest
from helpers.net.segment import (
    OURS,
    Sink,
    TcpByHand,
    Wall,
    arp_request,
    dhcp_discover,
    dhcp_options,
)

from emu.server.net.eth import passt
from emu.server.net.eth.passt import PasstError

needs_passt = pytest.mark.skipif(shutil.which("passt") is None, reason="passt is not installed")


@pytest.fixture
def wall():
    try:
        wall = Wall("user")
    except PasstError as error:
        pytest.skip(str(error))
    yield wall
    (uplink,) = wall.segments._uplinks
    pid = uplink.pid
    wall.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Lease(TcpByHand):
    """The guest that our frames pretend to be."""

    def __init__(self, wall):
        wall.host.send(dhcp_discover(OURS))
        offer = wall.answer(lambda data: data[12:14] == b"\x08\0" and data[23] == 17)
        self.options, address = dhcp_options(offer)
        router = self.options[3][:4]
        wall.host.send(arp_request(OURS, address, router))
        self.reply = wall.answer(lambda data: data[12:14] == b"\x08\x06")
        super().__init__(wall, address, router, self.reply[22:28])


@needs_passt
def test_dhcp_and_arp(wall):
    lease = Lease(wall)
    assert len(lease.ours) == 4
    assert any(lease.ours)
    assert lease.options[26] == pack(">H", passt.DEFAULT_MTU)
    assert len(lease.reply) == 60  # passt leaves the padding out


@needs_passt
def test_tcp_to_the_hosts_loopback_with_a_super_frame(wall):
    lease = Lease(wall)
    with Sink("127.0.0.1", 60_000) as sink:
        lease.connect(sink.port)
        lease.upload(sink.wanted, gso_size=1460)
        assert lease.download() == b"all of it"
    assert sink.got == sink.wanted


@needs_passt
def test_a_passt_that_ends_is_started_again(wall, caplog):
    (uplink,) = wall.segments._uplinks
    Lease(wall)
    first = uplink.pid
    os.kill(first, 9)
    wall.until(lambda: not wall.uplink("passt"))
    wall.until(lambda: wall.uplink("passt"))
    assert uplink.pid != first
    Lease(wall)
    assert [line for line in caplog.messages if "passt ended with status -9" in line]


@needs_passt
def test_an_option_that_passt_refuses():
    with pytest.raises(PasstError, match="passt ended with status"):
        Wall("user,forward=tcp:1.2.3.4.5/80:80")


def test_without_passt(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PasstError, match="apt-get install passt"):
        Wall("user")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """What is started in passt's place."""

    def make(script):
        path = tmp_path / "passt"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return path.with_suffix(".go")

    return make


@pytest.mark.hostile
def test_a_passt_that_keeps_ending_is_given_up(program, monkeypatch, caplog):
    monkeypatch.setattr(passt, "RESTART_NS", 1_000_000)
    go = program("until [ -e $0.go ]; do sleep 0.02; done; echo no luck >&2; exit 3")
    wall = Wall("user")
    go.touch()
    wall.until(lambda: "--net user is down" in caplog.text)
    assert "status 3: no luck" in caplog.text
    assert wall.uplink("passt") == []
    wall.close()


@pytest.mark.hostile
def test_a_passt_that_says_very_much_does_not_stop(program):
    program("while :; do echo nonsense; done >&2")
    wall = Wall("user")
    (uplink,) = wall.segments._uplinks
    for _ in range(200):
        wall.loop.step(0)
    assert len(uplink._tail._said) <= passt._TAIL
    wall.close()
