"""examples/monitor: what a node's monitor sees of a port that flaps and an adapter that fails."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from emu.guests.options import DEFAULT_DEVICE
from emu.server.control import Client

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples"
PATIENCE = 240


class Watched:
    """A guest in which the monitor runs."""

    def __init__(self, guest):
        self.guest = guest
        program = f"exec python3 /mnt/share/node.py --seconds {4 * PATIENCE}"
        self.job = guest.popen(program)
        self.until("^watching$")

    def until(self, *patterns):
        """Wait until it has said all of these, each after the one before."""
        wanted = re.compile(".*".join(patterns), re.M | re.S)
        end = time.monotonic() + PATIENCE
        while not wanted.search(said := bytes(self.job.stdout).decode()):
            assert time.monotonic() < end, said
            assert self.job.status is None, bytes(self.job.stderr).decode()
            time.sleep(0.2)

    def load(self, plan):
        with Client(self.guest.control_socket) as control:
            control.load_plan((EXAMPLES / "faults" / f"{plan}.toml").read_text())


@pytest.fixture
def watched(boot):
    return Watched(boot(devices=(DEFAULT_DEVICE,), share=EXAMPLES / "monitor"))


def test_a_link_that_flaps_and_an_adapter_that_recovers(watched):
    watched.load("link-flaps")
    watched.until(r"link_downed: 0 -> 1$", "ACTIVE -> 1: DOWN$", "DOWN -> 4: ACTIVE$")
    watched.load("health-fatal")
    watched.until("Fatal error 5 detected", "health recovery succeeded")


@pytest.mark.slow
def test_an_adapter_that_is_gone(watched):
    watched.load("bus-gone-for-good")
    watched.until("^mlx5_0 device: there -> gone$")
