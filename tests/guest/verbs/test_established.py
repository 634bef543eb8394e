"""The first request to a queue pair in RTR is an event that a program gets (IBV_EVENT_COMM_EST)."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, run

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "established.py"
COMM_EST = 4


def test_first_request(guest):
    guest.run("cat > /tmp/established.py", stdin=PROGRAM.read_bytes()).check()
    with no_complaints(guest):
        assert run(guest, "python3 /tmp/established.py") == f"[{COMM_EST}]\n"
