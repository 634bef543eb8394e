"""The capture file: blocks, limits, and what happens when it cannot be written."""

import os
from pathlib import Path
from struct import unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.driver.world.clock import HandClock
from emu.host.truncated_output import complaint
from emu.server.net.pcap import blocks, file
from emu.server.net.pcap.file import PcapFile

MAC = bytes.fromhex("021122334455")


def read(data):
    """The blocks of a file: type and body."""
    found, at = [], 0
    while at < len(data):
        kind, length = unpack_from("<II", data, at)
        assert length % 4 == 0
        assert unpack_from("<I", data, at + length - 4) == (length,)
        found.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return found


def options(body, at):
    """The options from there on, by number."""
    found = {}
    while at < len(body):
        code, size = unpack_from("<HH", body, at)
        if not code:
            return found
        found[code] = body[at + 4 : at + 4 + size]
        at += 4 + (size + 3 & ~3)
    raise AssertionError("no end of options")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "capture"


@pytest.fixture
def clock():
    return HandClock()


def test_what_a_file_says(path, clock):
    capture = PcapFile(path, clock, "mlx5emu 1")
    number = capture.interface(blocks.LINKTYPE_ETHERNET, "function 0", "ConnectX", MAC)
    capture.add(blocks.packet(number, 0x1_0000_0002, b"12345", True, "dropped: down"))
    capture.add(blocks.packet(number, 3, b"12345678", False))
    capture.close()
    section, interface, sent, got = read(path.read_bytes())
    assert section[0] == 0x0A0D0D0A
    assert options(section[1], 16)[4] == b"mlx5emu 1"
    assert unpack_from("<HHI", interface[1]) == (1, 0, 0)
    named = options(interface[1], 8)
    assert (named[2], named[3], named[6], named[9]) == (b"function 0", b"ConnectX", MAC, b"\x09")
    assert unpack_from("<IIIII", sent[1]) == (0, 1, 2, 5, 5)
    assert sent[1][20:28] == b"12345\0\0\0"
    assert options(sent[1], 28) == {1: b"dropped: down", 2: b"\2\0\0\0"}
    assert options(got[1], 28) == {2: b"\1\0\0\0"}


def test_nothing_is_written_for_each_packet_and_nothing_waits_for_long(path, clock):
    capture = PcapFile(path, clock, "")
    assert not clock.waiting()
    capture.add(blocks.packet(0, 0, bytes(100), True))
    assert path.stat().st_size == 0
    clock.advance(file.FLUSH_NS)
    assert len(read(path.read_bytes())) == 2
    assert not clock.waiting()  # idle again
    for _ in range(file.FLUSH_BYTES // 1000):
        capture.add(blocks.packet(0, 0, bytes(1000), True))
    assert path.stat().st_size > file.FLUSH_BYTES // 2
    capture.close()


def test_a_place_that_is_reserved_keeps_its_order(path, clock):
    capture = PcapFile(path, clock, "")
    outer = capture.reserve()
    for _ in range(file.FLUSH_BYTES // 1000 + 1):
        capture.add(blocks.packet(0, 2, bytes(1000), False))
    capture.put(outer, blocks.packet(0, 1, b"first", True))
    capture.close()
    found = read(path.read_bytes())
    assert found[1][1][20:25] == b"first"
    assert len(found) == file.FLUSH_BYTES // 1000 + 3


@pytest.mark.hostile
def test_a_full_disk_ends_it_with_one_line(clock, caplog):
    ended = []
    capture = PcapFile(Path("/dev/full"), clock, "")
    capture.on_end = lambda: ended.append(True)
    for _ in range(3):
        capture.add(blocks.packet(0, 0, bytes(100), True))
        clock.advance(file.FLUSH_NS)
    assert ended == [True]
    assert not capture.is_open
    assert caplog.messages == [
        "the capture /dev/full ends here, the run continues: No space left on device"
    ]
    capture.close()
    assert not clock.waiting()
    assert complaint("capture", Path("/dev/full"), capture.ended_by)


def test_it_ends_at_its_size(path, clock, caplog):
    capture = PcapFile(path, clock, "", most_mib=1)
    for _ in range(40):
        capture.add(blocks.packet(0, 0, bytes(60_000), True))
    assert not capture.is_open
    assert "the limit of 1 MiB is reached" in caplog.text
    assert path.stat().st_size < (1 << 20) + 2 * file.FLUSH_BYTES
    assert not complaint("capture", path, capture.ended_by)


@pytest.mark.hostile
def test_a_pipe_that_is_full_at_the_end_lacks_what_did_not_fit(path, clock):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    capture = PcapFile(path, clock, "")
    for _ in range(8):
        capture.add(blocks.packet(0, 0, bytes(60_000), True))
    capture.close()
    os.close(reader)
    assert complaint("capture", path, capture.ended_by).endswith("the file's reader is too slow")


@pytest.mark.hostile
def test_a_pipe_that_is_read_slowly_costs_packets_and_nothing_else(path, clock, caplog):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    capture = PcapFile(path, clock, "")
    for _ in range(file.MAX_WAITING // 60_000 + 50):
        capture.add(blocks.packet(0, 0, bytes(60_000), True))
    assert capture._waiting <= file.MAX_WAITING
    assert capture.is_open
    lost = capture._lost
    assert 40 <= lost <= 60
    data = b""
    while True:
        try:
            part = os.read(reader, 1 << 20)
        except BlockingIOError:
            break
        if not part:
            break
        data += part
        clock.advance(file.FLUSH_NS)
    os.close(reader)
    found = read(data)
    assert len(found) == 1 + file.MAX_WAITING // 60_000 + 50 - lost
    capture.close()
    assert f"{lost} packets are missing" in caplog.text


@pytest.mark.hostile
def test_a_block_that_is_written_in_part_is_not_replaced(path, clock):
    """The reader would get the beginning of one block and the whole of another."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    capture = PcapFile(path, clock, "")
    place = capture.add(blocks.packet(0, 0, bytes(200_000), True))
    clock.advance(file.FLUSH_NS)
    assert not capture.replace_last(place, blocks.packet(0, 0, bytes(200_000), True, "a fault"))
    data = b""
    while capture._blocks or not data:
        data += os.read(reader, 1 << 20)
        clock.advance(file.FLUSH_NS)
    data += os.read(reader, 1 << 20)
    os.close(reader)
    assert len(read(data)) == 2
    capture.close()


def test_a_pipe_that_nobody_reads(path, clock):
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device or address"):
        PcapFile(path, clock, "")


@given(st.text(max_size=3000), st.binary(max_size=70), st.integers(0, (1 << 64) - 1))
def test_any_comment_and_any_packet_make_whole_blocks(text, data, now):
    ((_, body),) = read(blocks.packet(3, now, data, True, text))
    assert unpack_from("<I", body, 12) == (len(data),)
    ((kind, body),) = read(blocks.journal_entry(now, text))
    assert kind == 9
    assert body.count(b"\n") == 3
    read(blocks.interface(1, text, text, MAC))


def test_an_erf_header():
    record = blocks.erf(1_500_000_000, bytes(26))
    assert unpack_from("<Q", record) == (1 << 32 | 1 << 31,)
    assert unpack_from(">BBHHH", record, 8) == (21, 4, 44, 0, 28)
    assert len(record) == 44


@pytest.mark.hostile
def test_a_full_pipe_is_not_tried_for_every_packet(path, clock, monkeypatch, caplog):
    """Nor is what waits copied for each of them, and what is lost leaves nothing behind."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    capture = PcapFile(path, clock, "")
    calls, write = [], os.writev
    monkeypatch.setattr(
        os, "writev", lambda fd, some: calls.append(sum(map(len, some))) or write(fd, some)
    )
    for _ in range(5000):
        capture.add(blocks.packet(0, 0, bytes(60_000), True))
    assert len(calls) <= 3
    assert caplog.text.count("its reader is too slow") == 1
    assert len(capture._blocks) <= file.MAX_WAITING // 60_000 + 2
    clock.advance(file.FLUSH_NS)
    assert len(calls) <= 5
    clock.budget.begin()
    capture.add(blocks.packet(0, 0, bytes(60_000), True))
    assert clock.budget.steps
    os.close(reader)
