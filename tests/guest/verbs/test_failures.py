"""How failures read in a guest: the log of mlx5_ib and mlx5_core, the dumps of libmlx5.

The codes are those of public logs of real cards (examples/real-cards).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.guest.guests import run
from helpers.guest.kernel_log import KernelLog

from emu.cli.main import main

pytestmark = pytest.mark.guest

EXAMPLE = Path(__file__).parents[3] / "examples" / "real-cards"
FIRST_KERNEL = (6, 3)
"""Of those that ask for a queue pair's error (qp.c: mlx5_ib_qp_err_syndrome)."""
IN_DMESG = "responder of remote memory"


def real():
    """The codes of real cards, by what fails."""
    cards = tomllib.loads((EXAMPLE / "real.toml").read_text())["card"]
    return next(card["facts"] for card in cards if card["tool"] == "failures")


def asks(guest):
    """Whether the guest's kernel asks for a queue pair's error."""
    major, minor = re.match(r"(\d+)\.(\d+)", run(guest, "uname -r")).groups()
    return (int(major), int(minor)) >= FIRST_KERNEL


def device_of(guest):
    """The guest's RDMA device, with the program beside it."""
    guest.run("cat > /tmp/failures.py", stdin=(EXAMPLE / "failures.py").read_bytes()).check()
    return run(guest, "ls /sys/class/infiniband").split()[0]


def explained(line):
    """Return what explain says of a line of a log."""
    return CliRunner().invoke(main, ["explain", line]).output


def test_error_completions_and_queue_pairs(guest):
    """A WRITE with immediate data finds no request: all but its last packet is there."""
    device, log, facts = device_of(guest), KernelLog(guest), real()
    printed = run(guest, f"python3 /tmp/failures.py {device}").splitlines()
    told = dict(line.rsplit(": ", 1) for line in printed)
    assert {name: told.get(name) for name in facts if name != IN_DMESG} == {
        name: said for name, said in facts.items() if name != IN_DMESG
    }
    assert told["bytes in place"] == "7168"
    number = told["queue pair with remote memory"]
    said = f"{device}/1: QP {number} error: {facts[IN_DMESG]}"
    lines = [text for _, text in log.lines() if " QP " in text and " error: " in text]
    assert lines == ([said] if asks(guest) else [])
    for line in (said, *(told[name] for name in facts if name != IN_DMESG)):
        assert "public logs of real adapters have it" in explained(line)


def test_full_table(boot):
    """A driver that has asked for 2**12 queue pairs; some are its own.

    The kernel logs no refusal of a program's command (core/cmd.c: mlx5_cmd_check).
    """
    guest = boot(devices=("connectx6-vf",), kernel_arguments=("mlx5_core.prof_sel=1",))
    device = device_of(guest)
    made, error = run(guest, f"python3 /tmp/failures.py {device} full").split()
    assert error == "ENOMEM"
    assert (1 << 12) - 128 < int(made) < 1 << 12
