"""The compiled package: mypyc takes the rooms that setup.py names, and the result runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from emu.version import COMPILED

ROOT = Path(__file__).parents[2]
SOURCES = ("emu", "layouts", "firmware_cmds")
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")

TRANSLATE = """
import runpy, sys
setup = runpy.run_path("setup.py")
sys.argv = ["setup.py", "build_ext"]
print(len(setup["compiled_modules"]()))
"""

TRAFFIC = """
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.device.models import MODELS
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from emu.version import code

clock = HandClock()
left, right = two_nodes(MODELS["connectx6"], clock, LocalFabric(clock))
qp, peer = left.queue_pair(), right.queue_pair()
connect(qp, peer)
source, target = left.region(4096), right.region(4096)
qp.write((target.key, target.va), source.sge(0, 64))
qp.node.settle()
print(code(), [entry.syndrome for entry in qp.cq.drain()])
"""


@pytest.fixture
def project(tmp_path):
    """A copy of what the package is built from."""
    for name in SOURCES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_compiler_takes_every_room(project):
    """Half a minute for its translation to C; that is not compiled here."""
    pytest.importorskip("mypyc", reason="comes with mypy, as scripts/setup dev installs it")
    done = subprocess.run(
        [sys.executable, "-c", TRANSLATE], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1]) > 200


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_compiled_package_runs(project):
    shutil.copytree(ROOT / "scripts", project / "scripts")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(["scripts/setup", "compiled"], cwd=project, env=environ, check=True)
    binaries = project / ".venv-compiled" / "bin"
    told = subprocess.run(
        [binaries / "mlx5emu", "--version"], capture_output=True, text=True, check=True, env=environ
    )
    assert told.stdout.endswith(f", {COMPILED}\n")
    sent = subprocess.run(
        [binaries / "python", "-c", TRAFFIC],
        cwd="/", capture_output=True, text=True, check=True, env=environ,
    )  # fmt: skip
    assert sent.stdout == f"{COMPILED} [0]\n"
