"""VFIO_USER_REGION_READ and VFIO_USER_REGION_WRITE."""

import errno

import pytest
from helpers.device.fake_function import FakeFunction

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.service.log_lines import MAX_LINES, filtered
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import (
    MAX_DATA_XFER_SIZE,
    REGION_ACCESS,
    MessageFlag,
    RegionIndex,
    VfioCommand,
)

BAR0_SIZE = 1 << 16


@pytest.mark.parametrize("size", [1, 2, 4, 8, 3, 64, 4096])
@pytest.mark.parametrize("offset", [0, 8, 13])
def test_bar_access(served, client, size, offset):
    data = bytes((offset + at) & 0xFF for at in range(size))
    client.write(0, offset, data)
    assert client.read(0, offset, size) == data
    assert served.function.accesses == [
        ("bar_write", 0, offset, data),
        ("bar_read", 0, offset, size),
    ]


def test_every_bar(served, client):
    client.write(2, 0xFFC, b"last")
    assert served.function.accesses == [("bar_write", 2, 0xFFC, b"last")]
    assert served.function.bars[2][-4:] == b"last"


def test_the_last_byte(client):
    client.write(0, BAR0_SIZE - 1, b"!")
    assert client.read(0, BAR0_SIZE - 1, 1) == b"!"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_config_access(served, client, size):
    client.write(RegionIndex.CONFIG, 0x104, bytes(range(size)))
    assert client.read(RegionIndex.CONFIG, 0x104, size) == bytes(range(size))
    assert served.function.accesses == [
        ("config_write", 0x104, bytes(range(size))),
        ("config_read", 0x104, size),
    ]


def test_the_header_is_the_functions_too(served, client):
    """libvfio-user can answer for the header itself; it must not."""
    served.function.config[0:4] = b"\xb3\x15\x1d\x10"
    assert client.read(RegionIndex.CONFIG, 0, 4) == b"\xb3\x15\x1d\x10"
    client.write(RegionIndex.CONFIG, 0x10, b"\xff\xff\xff\xff")
    assert served.function.accesses[-1] == ("config_write", 0x10, b"\xff\xff\xff\xff")


def test_all_of_config_space_at_once(served, client):
    """QEMU reads it so at start."""
    served.function.config[:] = bytes(range(256)) * 16
    assert client.read(RegionIndex.CONFIG, 0, 4096) == bytes(range(256)) * 16


@pytest.mark.parametrize(
    ("region", "offset", "size"),
    [
        (0, BAR0_SIZE, 4),
        (0, BAR0_SIZE - 2, 4),
        (0, (1 << 64) - 4, 4),
        (0, (1 << 64) - 4, 8),
        (0, 0, BAR0_SIZE + 1),
        (1, 0, 4),
        (RegionIndex.ROM, 0, 4),
        (RegionIndex.VGA, 0, 4),
        (9, 0, 4),
        (0xFFFFFFFF, 0, 4),
        (RegionIndex.CONFIG, 4096, 1),
        (RegionIndex.CONFIG, 4094, 4),
    ],
)
def test_access_outside_is_refused(served, client, region, offset, size):
    for access in (
        lambda: client.read(region, offset, size),
        lambda: client.write(region, offset, bytes(size)),
    ):
        with pytest.raises(VfioRefusedError) as refused:
            access()
        assert refused.value.errno == errno.EINVAL
    assert served.function.accesses == []
    client.read(0, 0, 4)


def test_an_access_of_nothing_is_refused(own, own_client):
    for command in (VfioCommand.REGION_READ, VfioCommand.REGION_WRITE):
        with pytest.raises(VfioRefusedError):
            own_client.call(command, REGION_ACCESS.pack(0, 0, 0))
    assert own.function.accesses == []


def test_a_transfer_has_a_limit(serve):
    served = serve("vfio-user", function=FakeFunction((2 * MAX_DATA_XFER_SIZE, 0, 0, 0, 0, 0)))
    client = served.client()
    with pytest.raises(VfioRefusedError):
        client.call(VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, MAX_DATA_XFER_SIZE + 1))
    assert served.function.accesses == []


@pytest.mark.parametrize(
    ("command", "payload"),
    [
        (VfioCommand.REGION_READ, b""),
        (VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4)[:-1]),
        (VfioCommand.REGION_WRITE, b""),
        (VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 4)),
        (VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 4) + b"123"),
        (VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 4) + b"12345"),
        (VfioCommand.REGION_WRITE, REGION_ACCESS.pack(0, 0, 0xFFFFFFFF) + b"1234"),
    ],
)
def test_count_and_size_must_agree(served, client, command, payload):
    with pytest.raises(VfioRefusedError) as refused:
        client.call(command, payload)
    assert refused.value.errno == errno.EINVAL
    assert served.function.accesses == []
    client.read(0, 0, 4)


def test_a_short_answer_of_the_function_is_an_error_reply(served, client):
    served.function.short = True
    with pytest.raises(VfioRefusedError) as refused:
        client.read(0, 0, 4)
    assert refused.value.errno == errno.EIO
    served.function.short = False
    assert client.read(0, 0, 4) == bytes(4)


def test_a_read_without_a_reply_still_has_its_effect(own, own_client):
    """Nobody sends that, but registers may change when they are read."""
    own_client.send(
        VfioCommand.REGION_READ, REGION_ACCESS.pack(8, 0, 4), flags=MessageFlag.NO_REPLY
    )
    own_client.device_info()
    assert own.function.accesses == [("bar_read", 0, 8, 4)]


def test_a_short_answer_for_config_space(served, client):
    served.function.config = bytearray(2)
    with pytest.raises(VfioRefusedError) as refused:
        client.read(RegionIndex.CONFIG, 0, 4)
    assert refused.value.errno == errno.EIO


def test_a_guest_cannot_fill_the_log(own, own_client, caplog):
    """Refusals are lines as any others, which are counted and summed up."""
    with filtered(Loop(), {}):
        for _ in range(5 * MAX_LINES):
            with pytest.raises(VfioRefusedError):
                own_client.read(1, 0, 4)
    lines = [line for line in caplog.messages if "refused" in line]
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith(f"{4 * MAX_LINES} more lines like this")
