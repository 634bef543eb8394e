"""libfabric's verbs provider, by the example: user space with connection management of its own."""

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

EXAMPLES = Path(__file__).parents[3] / "examples" / "libfabric"
SECONDS = 400


@pytest.mark.parametrize(
    "device", ["connectx6", pytest.param("connectx6dx", marks=pytest.mark.slow)]
)
def test_pingpong(boot, device):
    """Connected endpoints, datagrams, and reliable datagrams made of connected ones."""
    guest = boot(devices=(device,), packages=("libfabric-bin",), share=EXAMPLES)
    log = KernelLog(guest)
    assert guest.run("sh /mnt/share/pingpong.sh", timeout=SECONDS).check().stdout.splitlines() == [
        "libfabric: msg over verbs: 6 sizes",
        "libfabric: dgram over verbs: 4 sizes",
        "libfabric: rdm over verbs;ofi_rxm: 6 sizes",
    ]
    assert log.complaints() == []
