"""CONTRIBUTING's walk "add an option of a guest", walked on a copy of the sources.

Two files are opened: the table, and the one that tells QEMU. Every use has the option then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FIELD = """\
    rng: int = option(
        7,
        flag="rng",
        kind=Whole(metavar="N", least=1, most=9),
        help="Sources of random numbers.",
        is_recorded=True,
        refused={Use.CAMPAIGN: "two runs would differ by it"},
    )
"""
BEFORE = "    iommu: bool = option(\n"
USES = "import Choice, Flag, Whole, Words\n", "from emu.guests.options.uses import Use\n"
TOLD = '        "hugepages": options.hugepages,\n', '        "rng": options.rng,\n'

LOOK = """
import contextlib, io, pathlib
from _pytest.config.argparsing import Parser
from click.testing import CliRunner
from emu import pytest_plugin
from emu.cli.main import main
from emu.cli.manpage import page
from emu.guests import GuestOptions
from emu.guests.machine.launch import _config
from emu.guests.named import topology
from emu.guests.options import records
from emu.guests.options.table import markdown
from emu.guests.requested import requested
from emu.host.user_error import UserError
from emu.instruments.campaign import matrix

COMMANDS = ("run", "boot", "up", "rdma-tests", "replay", "minimize", "fuzz run", "fuzz replay")

def said(*words):
    return CliRunner().invoke(main, words).output

def refused(read, text):
    path = pathlib.Path("file.toml")
    path.write_text(text)
    try:
        read(path)
    except UserError as error:
        return str(error)

path = pathlib.Path("lab.toml")
path.write_text('[[guest]]\\nname = "a"\\nrng = 3\\n[[guest]]\\nname = "b"\\n')
told["lab"] = [node.options.rng for node in topology.read(path).nodes]
helps = [" ".join(said(*name.split(), "--help").split()) for name in COMMANDS]
shown = [text.partition("Sources of random numbers. [default: ")[2] for text in helps]
told["commands"] = [text.partition("]")[0] for text in shown]
told["too many"] = "1 to 9 is needed, not 0" in said("run", "--rng", "0", "true")
told["file"] = refused(topology.read, '[[guest]]\\nname = "a"\\nrng = 10\\n')
work = '[[workload]]\\nname = "w"\\nrun = "x"\\n[guest]\\nrng = 1\\n'
told["campaign"] = refused(matrix.read, work)
parser = Parser(_ispytest=True)
pytest_plugin.pytest_addoption(parser)
told["pytest"] = parser.parse(["--mlx5-rng", "2"]).mlx5_rng
told["marker"] = requested({"rng": 4}).rng
told["python"] = GuestOptions().rng
told["record"] = requested(records.options_of(records.recorded(GuestOptions(rng=5)))).rng
told["init"] = _config(GuestOptions(rng=6), "6.12", None)["rng"]
told["manual"] = "\\\\-\\\\-rng N" in page()
told["page"] = "| `--rng` N | `rng` * | `rng` | 7 | Sources of random numbers. |" in markdown()
try:
    GuestOptions(rng=0)
except UserError as error:
    told["refused"] = str(error)
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the sources, with nobody's caches."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("emu", "layouts", "firmware_cmds"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def insert(path, anchor, text, *, before=False):
    source = path.read_text()
    assert source.count(anchor) == 1, f"the walk needs another place in {path.name}"
    path.write_text(source.replace(anchor, text + anchor if before else anchor + text))


def test_an_option_of_a_guest(tree):
    insert(tree / "emu/guests/options/machine.py", BEFORE, FIELD, before=True)
    insert(tree / "emu/guests/options/machine.py", *USES)
    insert(tree / "emu/guests/machine/launch.py", *TOLD)

    script = f"import json, emu\ntold = {{'emu': emu.__file__}}\n{LOOK}\nprint(json.dumps(told))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)

    assert Path(told.pop("emu")).is_relative_to(tree)
    assert told == {
        "lab": [3, 7], "too many": True,
        "commands": ["7"] * 4 + ["as in RECORD"] * 2 + ["7"] * 2,
        "file": "file.toml:3: rng: at most 9 is needed, not 10",
        "campaign": "file.toml:5: rng: two runs would differ by it",
        "pytest": 2, "marker": 4, "python": 7, "record": 5, "init": 6, "manual": True,
        "page": True, "refused": "rng: 1 to 9",
    }  # fmt: skip
