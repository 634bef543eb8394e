"""The commands in the pages of examples/, each run as it stands there, page by page.

tests/unit/test_examples_commands.py holds the table of them against the pages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from helpers.files.readme_commands import ENDS, EXAMPLES, words
from helpers.guest.switch_kernel import switch_kernel

from emu.guests.errors import LabError
from emu.guests.kernel.choice import choose

pytestmark = [pytest.mark.guest, pytest.mark.timeout(1800)]

IN_A_GUEST = ("fault", "net")
"""Commands for the guest that runs."""


@pytest.fixture
def shell(tmp_path):
    """Runs a line in a folder beside examples/; guests of others are out of its sight."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    with contextlib.ExitStack() as stack:
        # A socket's path is short.
        mine = stack.enter_context(tempfile.TemporaryDirectory(prefix="m5-"))
        environ = os.environ | {"TMPDIR": mine, "XDG_RUNTIME_DIR": mine, "COLUMNS": "200"}
        Path(mine).chmod(0o700)

        def run(line, folder=tmp_path):
            program, *arguments = words(line)
            module = {"mlx5emu": "emu", "pytest": "pytest"}[program]
            extra = ("-p", "no:cacheprovider") if program == "pytest" else ()
            return subprocess.run(
                [sys.executable, "-m", module, *extra, *arguments], cwd=folder,
                env=environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                capture_output=True, text=True, timeout=1500, check=False,
            )  # fmt: skip

        def up():
            assert run("mlx5emu up readme").returncode == 0
            stack.callback(run, "mlx5emu down readme")

        cast(Any, run).up = up
        yield run


def held(shell, page, folder):
    """What is wrong with the lines of a page, in their order; they go on from each other."""
    is_up = False
    for line, (status, says) in ENDS[page].items():
        if not is_up and words(line)[1:2] and words(line)[1] in IN_A_GUEST:
            shell.up()
            is_up = True
        done = shell(line, folder)
        said = done.stdout + done.stderr
        if (
            done.returncode != status
            or says not in said
            or "did not recur" in said
            or re.search(r"\d+ of \d+ faults? fired again", said)
        ):
            yield f"{line}: status {done.returncode}: {said[-3000:]}"


@pytest.mark.parametrize(
    "page", ["findings", "links", "recipes", pytest.param("faults", marks=pytest.mark.slow)]
)
def test_lines_of_a_page_do_what_it_says(lab, shell, tmp_path, page):
    assert list(held(shell, page, tmp_path)) == []


@pytest.mark.slow
def test_lines_about_the_switch(lab, shell, tmp_path):
    """With a kernel that has sub-functions; Open vSwitch's flows are carried out by the adapter."""
    tree = Path(switch_kernel()["kernel"]).parents[3]
    folder = tmp_path / "switch"
    shutil.copytree(EXAMPLES / "switch", folder)
    (folder / "linux").symlink_to(tree)
    try:
        assert list(held(shell, "switch", folder)) == []
    finally:
        shell("mlx5emu lab down")


@pytest.mark.slow
def test_lines_about_virtual_functions(lab, shell, tmp_path):
    """Debian's kernels; Open vSwitch's flows are carried out by the adapter with 6.1."""
    folder = tmp_path / "sriov"
    shutil.copytree(EXAMPLES / "sriov", folder)
    try:
        assert list(held(shell, "sriov", folder)) == []
    finally:
        shell("mlx5emu lab down")


@pytest.mark.slow
def test_lines_about_a_project_of_tests(lab, shell, tmp_path):
    folder = tmp_path / "driver-tests"
    shutil.copytree(EXAMPLES / "driver-tests", folder)
    try:
        chosen = choose(["debian:cloud"], "trixie")
    except LabError as error:
        pytest.skip(f"no kernel to take for one's own: {error}")
    (folder / "bzImage").symlink_to(chosen.kernel)
    (folder / "out/lib/modules").mkdir(parents=True)
    (folder / "out/lib/modules/7.2.0").symlink_to(chosen.modules)
    assert list(held(shell, "driver-tests", folder)) == []
    assert (folder / "results.tap").read_text().startswith("TAP version 13\n1..3\n")
