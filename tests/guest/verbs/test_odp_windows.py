"""Memory windows over paged memory, by the example: right and wrong requests, and refusals."""

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog, server_complaints

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "paging"
WANTED = "right", "old tag", "too long", "no right", "invalidated", "unmapped"
ON_PURPOSE = "remote access refused: ", ": REMOTE_ACCESS_ERR: peer: REMOTE_ACCESS_ERROR"
"""What the server tells of a wrong request, at the responder and at the requester."""
OF_A_PAGE_FAULT = "remote access refused: page fault "
OF_A_RACE = " does not exist or does not allow UMR"
"""Of Linux 6.1, which destroys a key while another processor still invalidates its pages."""
SECONDS = 120.0


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("odp", [1, 2], ids=["transport", "memory"])
def test_requests_while_pages_go(boot, odp, linux, request):
    seconds = request.config.getoption("--paging-seconds")
    guest = boot(devices=(f"connectx6-vf,odp={odp}",), share=EXAMPLES)
    command = f"python3 /mnt/share/windows.py --seconds {seconds}"
    result = guest.run(command, timeout=seconds + 2 * SECONDS).check()
    assert "data right every time" in result.stdout
    assert [what for what in WANTED if f" x {what}" not in result.stdout] == []
    if linux != "6.1":
        assert KernelLog(guest, whole=True).complaints() == []
    known = ON_PURPOSE if linux != "6.1" else (*ON_PURPOSE, OF_A_RACE)
    complaints = server_complaints(guest)
    assert [line for line in complaints if not any(part in line for part in known)] == []
    assert any(OF_A_PAGE_FAULT in line for line in complaints)
