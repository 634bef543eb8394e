"""A driver that nobody here wrote: tinygrad's, in Python, in a guest's user space.

It takes two adapters with Ethernet ports without the kernel's driver, brings them up by commands
of its own, and connects them by RoCE v2.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie")]

SCRIPT = Path(__file__).parents[1] / "inside" / "tinygrad_driver.py"
SECONDS = 600
"""Its table of the PRM is a megabyte of Python, which takes an emulated processor a minute."""
# The driver asks for this with sudo, which the guest does not have.
PREPARE = "echo 0 > /proc/sys/vm/compact_unevictable_allowed"
RUN = "ln -s /mnt/share /tmp/tinygrad; cat > /tmp/driver.py; python3 /tmp/driver.py"


@pytest.mark.timeout(2 * SECONDS)
def test_it_brings_two_adapters_up_and_moves_data(lab, suite):
    found = find_spec("tinygrad")
    if found is None or found.origin is None:
        pytest.skip("tinygrad is not installed")
    guest = lab.get(
        GuestOptions(
            suite=suite,
            devices=("connectx6,link=eth", "connectx6,link=eth"),
            share=Path(found.origin).parent,
            probe=False,
        )
    )
    guest.run(PREPARE).check()
    done = guest.run(RUN, stdin=SCRIPT.read_bytes(), timeout=SECONDS).check()
    assert done.stdout.strip().endswith("150 messages are right")
