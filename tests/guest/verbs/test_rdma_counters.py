"""Counters that a process gives a flow of its own (ibv_create_counters), and a CQ's moderation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "flow_counters.py"
COUNT, FRAME_BYTES = 5, 100
UP = two_namespaces("eth0", "eth1", "10.0.1.1", "10.0.1.2")


@pytest.fixture
def guest(lab, suite):
    return lab.get(GuestOptions(suite=suite, devices=("connectx6dx", "connectx6dx-vf")))


def test_counters_of_a_flow(guest):
    """Only packets of the flow are counted; libmlx5 binds the counters when it makes the flow."""
    with no_complaints(guest):
        run(guest, UP)
        try:
            guest.run("cat > /tmp/flow_counters.py", stdin=PROGRAM.read_bytes()).check()
            found = json.loads(run(guest, "python3 /tmp/flow_counters.py"))
        finally:
            run(guest, "ip netns del peer")
    counted = [COUNT * FRAME_BYTES, COUNT]
    assert found == [[0, 0], counted, counted]


def test_adaptive_moderation(guest):
    """``rdma dev set`` turns it off and on."""
    with no_complaints(guest):
        for wanted in ("off", "on"):
            run(guest, f"rdma dev set mlx5_0 adaptive-moderation {wanted}")
            assert f"adaptive-moderation {wanted}" in run(guest, "rdma -d dev show mlx5_0")
