"""The fuzzer's executor in a guest: what ran in each turn, what fired, a panic and what follows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from emu.device.faults.parser import load
from emu.guests import GuestOptions
from emu.instruments.fuzz.executor import GuestExecutor
from emu.instruments.fuzz.mutate import Input

pytestmark = [
    pytest.mark.guest,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]
PULSE = """
[[rule]]
name = "pulse"
point = "cmd.done"
action = "event"
match.op = "CREATE_MKEY"
event = "PPS_EVENT"
"""


def test_turns_of_the_executor(lab, suite):
    """Without faults; with one that the driver does not survive; and in the guest after that.

    The functions are traced, as with --traced, and the emulator has no failure of its own.
    """
    executor = GuestExecutor(GuestOptions(suite=suite, trace=Path(os.devnull)))
    try:
        quiet = executor.run(Input(load(""), "probe"))
        assert quiet.titles == ()
        assert {module for module, _ in quiet.blocks} == {"mlx5_core", "mlx5_ib"}
        assert len(quiet.blocks) > 2000
        fatal = executor.run(Input(load(PULSE), "probe"))
        assert fatal.fired == {"pulse"}
        assert "mlx5_pps_event" in fatal.titles[0]
        assert fatal.blocks - quiet.blocks
        assert executor.run(Input(load(""), "probe")).titles == ()
        assert executor.boots == 2
    finally:
        executor.close()
    assert executor.emulator_errors == []
