"""VFIO_USER_DEVICE_GET_INFO."""

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import DEVICE_INFO, VfioCommand


def test_device_is_pci_and_can_be_reset(client):
    assert client.device_info() == (16, 3, 9, 5)


@pytest.mark.parametrize(
    "payload",
    [b"", DEVICE_INFO.pack(15, 0, 0, 0), DEVICE_INFO.pack(16, 0, 0, 0)[:-1]],
    ids=["empty", "argsz", "short"],
)
def test_bad_request_is_refused(client, payload):
    with pytest.raises(VfioRefusedError):
        client.call(VfioCommand.DEVICE_GET_INFO, payload)
    assert client.device_info() == (16, 3, 9, 5)
