"""VFIO_USER_DEVICE_GET_IRQ_INFO."""

import errno

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import IRQ_INFO, Irq, IrqInfoFlag, VfioCommand


@pytest.mark.parametrize(
    ("index", "count"),
    [(Irq.INTX, 0), (Irq.MSI, 0), (Irq.MSIX, 32), (Irq.ERR, 1), (Irq.REQ, 1)],
)
def test_only_msix_err_and_req(client, index, count):
    assert client.irq_info(index) == (16, IrqInfoFlag.EVENTFD, index, count)


@pytest.mark.parametrize(
    "payload",
    [
        IRQ_INFO.pack(16, 0, 5, 0),
        IRQ_INFO.pack(16, 0, 0xFFFFFFFF, 0),
        IRQ_INFO.pack(15, 0, 2, 0),
        IRQ_INFO.pack(16, 0, 2, 0)[:-1],
    ],
    ids=["index", "far", "argsz", "short"],
)
def test_bad_request_is_refused(client, payload):
    with pytest.raises(VfioRefusedError) as refused:
        client.call(VfioCommand.DEVICE_GET_IRQ_INFO, payload)
    assert refused.value.errno == errno.EINVAL
