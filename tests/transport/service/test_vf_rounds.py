"""Many requests at once that reset a physical function and its virtual ones."""

import pytest
from helpers.device.sriov import CONTROL, DEVICE_CONTROL, INITIATE_FLR, NUM_VFS, Sriov

from emu.driver.transport.vfio_client import VfioClient
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import HEADER, REGION_ACCESS, RegionIndex, VfioCommand

pytestmark = pytest.mark.hostile
VFS = 15
REPEATS = 30
ENABLE, COMMAND, MEMORY, MASTER = 9, 0x04, 2, 4


@pytest.fixture
def loop():
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def sriov(loop):
    return Sriov(loop, VFS)


@pytest.fixture
def client(serve, sriov, loop):
    """A client of the physical function, with all virtual functions enabled and probed."""
    served = serve("vfio-user", function=sriov.pf.function)
    loop.add_transport(served.transport)
    made = VfioClient(served.path, lambda: loop.step(0))
    made.negotiate()
    sriov.probed(VFS)
    yield made
    made.close()


def restarts(sriov):
    return sum(one.function.restarts for one in (sriov.pf, *sriov.vfs))


def config_write(offset, value):
    data = value.to_bytes(2, "little")
    payload = REGION_ACCESS.pack(offset, RegionIndex.CONFIG, len(data)) + data
    return VfioCommand.REGION_WRITE, payload


ATTACKS = {
    "vf enable": [config_write(CONTROL, 0), config_write(NUM_VFS, VFS), config_write(CONTROL, 9)],
    "flr": [
        config_write(DEVICE_CONTROL, INITIATE_FLR),
        config_write(NUM_VFS, VFS),
        config_write(CONTROL, ENABLE),
    ],
    "reset": [
        (VfioCommand.DEVICE_RESET, b""),
        config_write(NUM_VFS, VFS),
        config_write(CONTROL, ENABLE),
    ],
    "bus master": [config_write(COMMAND, MEMORY), config_write(COMMAND, MEMORY | MASTER)],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_round_resets_each_function_once_or_twice(sriov, client, loop, attack):
    requests = ATTACKS[attack] * REPEATS
    client.send_raw(
        b"".join(
            HEADER.pack(number, cmd, HEADER.size + len(payload), 0, 0) + payload
            for number, (cmd, payload) in enumerate(requests)
        )
    )
    first, longest, answered = restarts(sriov), 0, 0
    while answered < len(requests):
        before = restarts(sriov)
        loop.step(0)
        longest = max(longest, restarts(sriov) - before)
        answered += _replies(client)
    expected = 0 if attack == "bus master" else REPEATS * VFS
    assert restarts(sriov) - first >= expected
    assert longest <= 2 * (1 + VFS)
    assert not any(one.function.hca.health.has_failed for one in (sriov.pf, *sriov.vfs))


def _replies(client):
    """Take the replies that have arrived; return how many."""
    client.sock.setblocking(False)
    try:
        data = client.sock.recv(1 << 20)
    except BlockingIOError:
        return 0
    finally:
        client.sock.setblocking(True)
    count = 0
    while data:
        data = data[HEADER.unpack_from(data)[2] :]
        count += 1
    return count
