"""libfabric's verbs provider, by the example: user space with connection management of its own."""

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

EXAMPLES = Path(__file__).parents[3] / "examples" / "libfabric"
SECONDS = 400


@pytest.mark.parametrize(
    ("device", "datagrams"),
    [("connectx6", 4), pytest.param("connectx6dx", 3, marks=pytest.mark.slow)],
)
def test_pingpong(boot, device, datagrams):
    """Connected endpoints, datagrams, and reliable datagrams made of connected ones.

    Of the sizes 64, 256, 1024, 4096 and so on, datagrams have those up to the path's MTU: 4096, or
    1024 on Ethernet with frames of 1500 bytes.
    """
    guest = boot(devices=(device,), packages=("libfabric-bin",), share=EXAMPLES)
    log = KernelLog(guest)
    assert guest.run("sh /mnt/share/pingpong.sh", timeout=SECONDS).check().stdout.splitlines() == [
        "libfabric: msg over verbs: 6 sizes",
        f"libfabric: dgram over verbs: {datagrams} sizes",
        "libfabric: rdm over verbs;ofi_rxm: 6 sizes",
    ]
    assert log.complaints() == []
