"""What the executor makes of a guest's answers, and the guest's program."""

from __future__ import annotations

import subprocess

import pytest

from emu.guests.errors import LabError
from emu.instruments.fuzz.executor import Sections
from emu.instruments.fuzz.workloads import INSTALL, SECTIONS, program

LINES = [
    "mlx5_core .text 0xffffffffc0600000",
    "mlx5_core .exit.text 0xffffffffc06f0000",
    "ib_core .text 0xffffffffc0700000",
    "mlx5_ib .text 0xffffffffc0800000",
]


def test_blocks_are_those_of_the_modules_text_by_offset():
    sections = Sections(LINES, frozenset({"mlx5_core", "mlx5_ib"}))
    executed = [
        (0xFFFFFFFFC0500000, 4), (0xFFFFFFFFC0600040, 9), (0xFFFFFFFFC06F0010, 4),
        (0xFFFFFFFFC0700010, 4), (0xFFFFFFFFC0800000, 1),
    ]  # fmt: skip
    assert list(sections.blocks(executed)) == [("mlx5_core", 0x40), ("mlx5_ib", 0)]


@pytest.mark.hostile
@pytest.mark.parametrize("lines", [[], ["mlx5_core .text"], ["mlx5_core .text zero"], ["a b 0x"]])
def test_a_guest_that_does_not_tell_where_its_modules_are(lines):
    with pytest.raises(LabError, match="sections of mlx5_core"):
        Sections(lines, frozenset({"mlx5_core"}))


@pytest.mark.parametrize("script", [program(), INSTALL, SECTIONS])
def test_scripts_are_ones_for_a_shell(script):
    done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.stderr == ""
