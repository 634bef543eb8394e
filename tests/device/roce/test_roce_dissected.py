"""RoCE frames of every service, and what Wireshark makes of them."""

import shutil
import subprocess
from typing import Any

import pytest

from emu.device.port.eth.congestion import with_mark
from emu.driver.nodes.roce import on_a_cable
from emu.driver.verbs.channels import Channel
from emu.server.net.pcap import blocks
from layouts.enums.qp import QpType

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
ETHERNET = 1
TEXT = bytes(range(256)) * 12
"""Three packets."""
RC_OPCODES = {0, 1, 3, 4, 6, 7, 8, 12, 13, 14, 15, 17, 18, 19, 20}
"""SEND, WRITE and READ of three packets, a SEND of one, atomics, and what answers them."""


@pytest.fixture
def ends(clock):
    return on_a_cable(clock)


def dissected(frames, tmp_path, *fields, protocol="RRoCE"):
    """The fields' values for each frame; the test fails when one is malformed."""
    path = tmp_path / "frames.pcapng"
    parts = [blocks.section("test"), blocks.interface(ETHERNET, "one", "", bytes(6))]
    parts += [blocks.packet(0, at, frame, True) for at, frame in enumerate(frames)]
    path.write_bytes(b"".join(parts))
    # That dissector guesses, and takes messages of any content for its own.
    command = ["tshark", "--disable-protocol", "rpcordma", "-r", str(path), "-T", "fields"]
    command += ["-E", "separator=|"]
    for field in ("_ws.col.Protocol", "_ws.malformed", "_ws.expert.severity", *fields):
        command += ["-e", field]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split("|") for line in said.splitlines()]
    assert {tuple(row[:3]) for row in rows} == {(protocol, "", "")}
    return [row[3:] for row in rows]


def frames_of(channel):
    return [frame for node in (channel.left, channel.right) for frame in node.hca.eth_wire.sent]


def test_reliable_connection(ends, tmp_path):
    channel = Channel(QpType.RC, *ends)
    here, there = (node.region(2 * len(TEXT)) for node in ends)
    here.write(TEXT)
    remote = (there.key, there.va)
    for length, immediate in ((len(TEXT), 7), (9, None)):
        channel.post_recv(there.sge(len(TEXT), len(TEXT)))
        channel.send(here.sge(0, length), imm=immediate)
    channel.write(remote, here.sge(0, len(TEXT)))
    channel.read(remote, here.sge(0, len(TEXT)))
    channel.fetch_add(remote, here.sge(0, 8), 5)
    channel.compare_swap(remote, here.sge(0, 8), 5, 6)
    channel.settle()
    assert len(channel.sent()) == 6
    rows = dissected(frames_of(channel), tmp_path, "infiniband.bth.opcode", "ip.src")
    assert {int(opcode) for opcode, _ in rows} == RC_OPCODES
    assert {source for _, source in rows} == {f"10.0.0.{node.gids[1][-1]}" for node in ends}


@pytest.mark.parametrize(
    ("service", "opcodes"),
    [(QpType.UC, {32, 33, 34}), (QpType.XRC, {160, 161, 162, 177}), (QpType.UD, {100})],
    ids=lambda one: getattr(one, "name", ""),
)
def test_other_services(ends, service, opcodes, tmp_path):
    channel = Channel(service, *ends)
    length = 800 if service is QpType.UD else len(TEXT)
    source, target = ends[0].region(len(TEXT)), ends[1].region(len(TEXT) + 40)
    channel.post_recv(target.sge())
    channel.send(source.sge(0, length))
    channel.settle()
    assert len(channel.received()) == 1
    rows = dissected(frames_of(channel), tmp_path, "infiniband.bth.opcode")
    assert {int(opcode) for (opcode,) in rows} == opcodes


@pytest.mark.parametrize("service", [QpType.RC, QpType.UD], ids=lambda one: one.name)
def test_version_1(ends, service, tmp_path):
    for node in ends:
        node.index = 4
    channel = Channel(service, *ends)
    channel.post_recv(ends[1].region(len(TEXT)).sge())
    channel.send(b"seen")
    channel.settle()
    fields = ("eth.type", "infiniband.grh.nxthdr", "infiniband.grh.dgid")
    rows = dissected(frames_of(channel), tmp_path, *fields, protocol="RoCE")
    gids = {f"::ffff:10.0.0.{node.gids[1][-1]}" for node in ends}
    assert {(int(kind, 0), int(follows, 0)) for kind, follows, _ in rows} == {(0x8915, 27)}
    assert {dgid for *_, dgid in rows} <= gids


def test_notification_of_congestion(ends, tmp_path):
    channel = Channel(QpType.RC, *ends)
    cable: Any = channel.left.hca.eth_wire
    cable.tap = lambda frame: [with_mark(frame) or frame]
    target = ends[1].region(64)
    channel.write((target.key, target.va), b"marked")
    channel.settle()
    rows = dissected(ends[1].hca.eth_wire.sent, tmp_path, "infiniband.bth.opcode")
    assert ["129"] in rows
