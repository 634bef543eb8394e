"""DEVX: commands of a process that complete later, and the device's events in its hands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, run

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow]

PROGRAM = Path(__file__).parents[1] / "inside" / "devx_events.py"
COOKIE, WORK = 0x77, 0x1234
EQE_BYTES, HEADER_BYTES, PORT_CHANGE = 64, 8, 9


def test_events_and_asynchronous_commands(lab, suite):
    """A query by a file; the port's events with and without data (mlx5_ib devx.c)."""
    guest = lab.get(GuestOptions(suite=suite, devices=("connectx6dx", "connectx6dx-vf")))
    with no_complaints(guest):
        run(guest, "ip link set eth0 up")
        guest.run("cat > /tmp/devx_events.py", stdin=PROGRAM.read_bytes()).check()
        found = json.loads(run(guest, "python3 /tmp/devx_events.py"))
    assert found["eqn"] > 0
    assert found["answer"] == [WORK, "0" * 16]
    assert found["events"] == [
        [HEADER_BYTES + EQE_BYTES, COOKIE, PORT_CHANGE],
        [HEADER_BYTES, COOKIE, None],
    ]
