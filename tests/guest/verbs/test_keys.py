"""Memory keys over and over, by the example: changing tags, data checked, nothing left."""

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog, server_complaints

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "keys"
TURNS_PER_SECOND = 20
"""Far fewer than on a busy host."""


@pytest.mark.timeout(0)
def test_windows_and_regions_come_and_go(boot, request):
    turns = request.config.getoption("--key-turns")
    guest = boot(devices=("connectx6-vf",), share=EXAMPLES)
    command = f"python3 /mnt/share/churn.py --turns {turns}"
    result = guest.run(command, timeout=120 + turns / TURNS_PER_SECOND).check()
    assert "data right every time, nothing left" in result.stdout
    guest.run("modprobe -r mlx5_ib mlx5_core", timeout=120).check()
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_null_region(boot):
    guest = boot(devices=("connectx6-vf",), share=EXAMPLES)
    result = guest.run("python3 /mnt/share/null.py", timeout=120).check()
    assert "sent zeros, and swallowed" in result.stdout
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_region_of_a_dma_buf(boot):
    """Whose memory lies apart. Its registration is the kernel's page fault, the device's too."""
    guest = boot(devices=("connectx6-vf",), share=EXAMPLES)
    if guest.run("test -e /dev/udmabuf", timeout=60).status:
        pytest.skip("Debian 12's kernel has no udmabuf")
    result = guest.run("python3 /mnt/share/dmabuf.py", timeout=120).check()
    assert "written, sent and compared, one more refused" in result.stdout
    assert KernelLog(guest, whole=True).complaints() == []
    refused = [line for line in server_complaints(guest) if "ACCESS_ERROR" not in line]
    assert ["remote access refused" in line for line in refused] == [True]
